package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// running are the processes below this one whose command lines have all of these words.
func running(t *testing.T, words ...string) (pids []int) {
	for pid := range hosttest.Descendants(os.Getpid()) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		has := err == nil && len(line) > 0
		for _, w := range words {
			has = has && strings.Contains(string(line), w)
		}
		if has {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Nothing of a browser is left, however its visit ends.
func TestBrowseLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p, _, _, w := newPages(t, nil)
	at := onePage(w, t, p, `<p>hello</p><script>new Worker(URL.createObjectURL(new Blob(["setInterval(() => {}, 1)"])))</script>`)
	browse(t, p, Browse{URL: at, Screenshot: true})
	if _, err := browsePage(t.Context(), p, Browse{URL: at + "none", WaitFor: "p["}); err == nil {
		t.Error("it did not fail")
	}
	if pids := running(t, profileAt); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
	left, err := filepath.Glob(filepath.Join(temp, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if strings.Contains(name, "profile") || strings.Contains(name, "chrom") {
			t.Errorf("%s is left", name)
		}
	}
}

// A browser that dies is an error that says so, and a browser ends when its caller leaves.
func TestBrowseDies(t *testing.T) {
	p, _, _, w := newPages(t, nil)
	arrived := make(chan struct{}, 10)
	port := w.Serve(t, "web.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, "<p>here</p>")
		arrived <- struct{}{}
	}))
	may(p, t, fmt.Sprintf("web.test:%d", port))
	kill := func(words ...string) {
		t.Helper()
		<-arrived
		var pids []int
		hosttest.Until(t, "there is something to kill", func() bool { pids = running(t, words...); return len(pids) > 0 })
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for name, tt := range map[string]struct {
		kill []string
		want string
	}{
		"the page":    {[]string{"--type=renderer"}, "the page's process has ended"},
		"the browser": {[]string{profileAt, "--remote-debugging-pipe"}, "the browser has ended"},
	} {
		ended := make(chan error, 1)
		go func() {
			_, err := browsePage(t.Context(), p, Browse{URL: fmt.Sprintf("http://web.test:%d/", port), WaitFor: "#never", Timeout: time.Minute})
			ended <- err
		}()
		kill(tt.kill...)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkBrowse(b *testing.B) {
	for _, screenshot := range []bool{false, true} {
		b.Run(fmt.Sprintf("screenshot=%v", screenshot), func(b *testing.B) {
			p, _, _, w := newPages(b, nil)
			at := onePage(w, b, p, `<!doctype html><title>x</title><p>hello</p><script>document.body.append("made")</script>`)
			var peak int64
			for b.Loop() {
				peak = max(peak, browse(b, p, Browse{URL: at, Screenshot: screenshot}).PeakMemory)
			}
			b.ReportMetric(float64(peak>>20), "peak-MB")
		})
	}
}
