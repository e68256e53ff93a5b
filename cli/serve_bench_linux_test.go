package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// bencher is a client of a server in this process, over pipes.
type bencher struct {
	*testing.B
	to    io.WriteCloser
	lines *bufio.Reader
	calls int
	took  []time.Duration
}

// newBencher starts serve with its own state directories, so that a profile of the benchmark covers the server.
func newBencher(b *testing.B) *bencher {
	home := b.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": home + "/state", "XDG_CONFIG_HOME": home + "/config",
		"XDG_RUNTIME_DIR": ""} {
		b.Setenv(name, value)
	}
	fromClient, to, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	from, toClient, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan int)
	go func() {
		ended <- Main([]string{"sandboxmcp", "serve", "--structured"}, fromClient, toClient, os.Stderr)
	}()
	x := &bencher{B: b, to: to, lines: bufio.NewReaderSize(from, 1<<20)}
	b.Cleanup(func() {
		to.Close()
		if code := <-ended; code != 0 {
			b.Errorf("serve ended with %d", code)
		}
		for _, f := range []*os.File{fromClient, toClient, from} {
			f.Close()
		}
	})
	x.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	fmt.Fprintln(to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return x
}

// request sends a request and returns the line of the response.
func (x *bencher) request(method, params string) []byte {
	x.calls++
	began := time.Now()
	if _, err := fmt.Fprintf(x.to, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", x.calls, method, params); err != nil {
		x.Fatal(err)
	}
	for mark := fmt.Appendf(nil, `"id":%d,`, x.calls); ; {
		line, err := x.lines.ReadBytes('\n')
		if err != nil {
			x.Fatal(err)
		}
		if bytes.Contains(line[:min(len(line), 60)], mark) {
			x.took = append(x.took, time.Since(began))
			return line
		}
	}
}

// call calls a tool, which must succeed.
func (x *bencher) call(tool, arguments string) string {
	answer := string(x.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)))
	if !strings.Contains(answer, `"structuredContent"`) || strings.Contains(answer, `"isError":true`) {
		x.Fatal(answer)
	}
	return answer
}

// median reports the median duration of the calls since loop.
func (x *bencher) median() {
	slices.Sort(x.took)
	x.ReportMetric(float64(x.took[len(x.took)/2].Microseconds()), "µs/median")
	x.ReportMetric(float64(x.took[len(x.took)*99/100].Microseconds()), "µs/p99")
}

// BenchmarkServe measures a client's wait from writing a request's line to reading its response.
func BenchmarkServe(b *testing.B) {
	b.Run("ping", func(b *testing.B) {
		x := newBencher(b)
		x.took = nil
		for b.Loop() {
			x.request("ping", "{}")
		}
		x.median()
	})
	for _, language := range []string{"python", "node", "shell"} {
		code := map[string]string{"python": "1+1", "node": "1+1", "shell": ":"}[language]
		b.Run("cell/"+language, func(b *testing.B) {
			x := newBencher(b)
			_, id, _ := strings.Cut(x.call("create_session", fmt.Sprintf(`{"language":%q}`, language)), `"session_id":"`)
			id, _, _ = strings.Cut(id, `"`)
			x.took = nil
			for b.Loop() {
				x.call("execute_code", fmt.Sprintf(`{"session_id":%q,"code":%q}`, id, code))
			}
			x.median()
		})
	}
	b.Run("run/shell", func(b *testing.B) {
		x := newBencher(b)
		x.took = nil
		for b.Loop() {
			x.call("execute_code", `{"language":"shell","code":":"}`)
		}
		x.median()
	})
}
