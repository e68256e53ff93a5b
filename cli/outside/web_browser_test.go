package outside

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/web"
)

// TestShowBrowsed prints an incomplete page with many hosts and a picture, several times.
func TestShowBrowsed(t *testing.T) {
	t.Chdir(t.TempDir())
	b := web.Browsed{Late: "nothing matched", Picture: []byte("PNG"), Host: "ok.test", Status: 410, Total: 100}
	res := pipeline.Outcome{Output: pipeline.Output{Stdout: "some text"}}
	for i := range maxMissing + 10 {
		res.Egress = append(res.Egress, egress.Record{Decision: egress.Decision{Name: fmt.Sprint("h", i, ".test"), Reason: "it may not"}})
	}
	for _, tt := range []struct{ out, fails, want string }{
		{"", "", "the picture is in ok.test.png"}, {"", "", "the picture is in ok.test-2.png"},
		{"mine.png", "", "the picture is in mine.png"}, {"mine.png", "mine.png: file exists", ""}, {"-", "can't go to standard output", ""},
	} {
		var stdout, stderr bytes.Buffer
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.String("out", tt.out, "")
		err := (commands{&command.Streams{Out: &stdout, Err: &stderr}}).showBrowsed(cli.NewContext(nil, flags, nil), b, res)
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("--out %s: got %v, want %s", tt.out, err, tt.fails)
			}
			continue
		}
		if err != nil || strings.Count(stderr.String(), "not loaded from h") != maxMissing {
			t.Errorf("--out %s: %v, %s", tt.out, err, stderr.String())
		}
		for _, want := range []string{tt.want, "answered with HTTP 410", "incomplete: nothing matched; this is", "and not from 10 others",
			"9 bytes of 100"} {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("--out %s: it says %s, want %s", tt.out, stderr.String(), want)
			}
		}
		if !strings.Contains(stdout.String(), "some text") {
			t.Errorf("it shows %s", stdout.String())
		}
	}
	if text, err := os.ReadFile("ok.test-2.png"); err != nil || string(text) != "PNG" {
		t.Errorf("the picture is %q, %v", text, err)
	}
}
