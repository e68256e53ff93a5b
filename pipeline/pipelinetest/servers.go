package pipelinetest

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// WriterFunc is a writer that calls itself once.
type WriterFunc func([]byte)

// Serve starts a web server for name and returns its port. The server reports the requested Host.
func (w *Town) Serve(t testing.TB, name string, h http.Handler) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Names[name] = netip.MustParseAddr("127.0.0.9")
	return l.Addr().(*net.TCPAddr).Port
}

// Egress returns an egress policy that allows names of the town.
func (w *Town) Egress(tb testing.TB, allow []string) pipeline.Egress {
	tb.Helper()
	policy, err := egress.NewPolicy(allow, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return pipeline.Egress{Policy: policy, Dialer: &egress.Dialer{Resolver: w, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
}

// WheelIndex serves a package "greet". The returned function configures pip to use it, as an operator would.
func WheelIndex(t *testing.T) func(*testing.T) {
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"greet.py":                     "x = 1\n",
		"greet-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n",
		"greet-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"greet-1.0.dist-info/RECORD":   "greet.py,,\ngreet-1.0.dist-info/METADATA,,\ngreet-1.0.dist-info/WHEEL,,\ngreet-1.0.dist-info/RECORD,,\n",
	} {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	const file = "greet-1.0-py3-none-any.whl"
	mux := http.NewServeMux()
	mux.HandleFunc("/simple/greet/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/files/%s#sha256=%s">%s</a></body></html>`, file, pipeline.Hash(wheel.Bytes()), file)
	})
	mux.HandleFunc("/files/"+file, func(w http.ResponseWriter, _ *http.Request) { w.Write(wheel.Bytes()) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return func(t *testing.T) {
		hosttest.Program(t, "python3")
		for _, kv := range os.Environ() {
			name, _, _ := strings.Cut(kv, "=")
			if upper := strings.ToUpper(name); strings.HasPrefix(upper, "PIP_") || strings.HasSuffix(upper, "_PROXY") {
				t.Setenv(name, "")
				os.Unsetenv(name)
			}
		}
		t.Setenv("PIP_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
		t.Setenv("PIP_INDEX_URL", s.URL+"/simple")
	}
}

func (w WriterFunc) Write(b []byte) (int, error) {
	w(b)
	return len(b), errors.New("enough")
}
