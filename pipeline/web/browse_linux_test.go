package web

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// newPages is a pipeline with a browser, and a town of which the browser may see the pages of the test.
func newPages(t testing.TB, change func(*pipeline.Config)) (*pipeline.Pipeline, *pipelinetest.FlakyLog, *vault.Memory, *pipelinetest.Town) {
	t.Helper()
	if _, err := browser.FindProgram(""); err != nil {
		hosttest.SkipMissing(t, "chromium", err.Error())
	}
	w := pipelinetest.EmptyTown()
	p, log, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Egress = w.Egress(t, nil)
		*pipeline.EnsureSettings[Config](c) = Config{Client: web.NewClient(web.Config{})}
		if change != nil {
			change(c)
		}
	})
	return p, log, memory, w
}

// may lets the pipeline's web tools go to these.
func may(p *pipeline.Pipeline, t testing.TB, allow ...string) {
	t.Helper()
	policy, err := egress.NewPolicy(allow, nil)
	if err != nil {
		t.Fatal(err)
	}
	pipeline.PackageSettings[Config](p).Policy = policy
}

func html(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, body)
	})
}

func TestBrowse(t *testing.T) {
	p, _, _, w := newPages(t, nil)
	port := w.Serve(t, "web.test", html(`<!doctype html><title>First</title><style>body{background:#0080ff}</style><p id=a>Waiting.</p>
<script>document.getElementById("a").textContent = "Made by " + "JavaScript.";</script>`))
	web := fmt.Sprintf("web.test:%d", port)
	may(p, t, web)
	got, err := browsePage(t.Context(), p, Browse{URL: "http://" + web + "/", Screenshot: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Title != "First" || !strings.Contains(got.Stdout, "Made by JavaScript.") || got.Status != 200 {
		t.Errorf("got %q %q %d", got.Title, got.Stdout, got.Status)
	}
	img, err := png.Decode(bytes.NewReader(got.Picture))
	if err != nil {
		t.Fatalf("%v %v", err, got.Notes)
	}
	if b := img.Bounds(); b.Dx() != browser.Width || b.Dy() != browser.Height {
		t.Errorf("size %v", b)
	}
	if r, g, b, _ := img.At(900, 600).RGBA(); r>>8 != 0 || g>>8 != 0x80 || b>>8 != 0xff {
		t.Errorf("colour %x %x %x", r, g, b)
	}
}
