package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// A failed listener is logged, reported to probes, and ends a server without another one.
func TestListenerFails(t *testing.T) {
	for name, flags := range map[string][]string{"HTTP only": nil, "standard input and output, too": {"--stdio"}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			shared, err := l.(*net.TCPListener).File()
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			home := t.TempDir()
			serve := command(t.Context(), t, home, append([]string{"serve", "--listen", "systemd"}, flags...)...)
			cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, serve.Path},
				serve.Args[1:]...)...)
			var log bytes.Buffer
			cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(serve.Env, "LISTEN_FDS=1"), []*os.File{shared}, &log
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			ready := func() int {
				_, _ = io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
				answer, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				return answer.StatusCode
			}
			if status := ready(); status != http.StatusOK {
				t.Errorf("before: got %d", status)
			}
			if err := syscall.Shutdown(int(shared.Fd()), syscall.SHUT_RDWR); err != nil {
				t.Fatal(err)
			}
			want, code := "sandboxmcp: serve at http://127.0.0.1", 1
			if flags != nil {
				hosttest.Until(t, "/readyz tells it", func() bool { return ready() == http.StatusServiceUnavailable })
				a := agent{t: t, in: in, lines: bufio.NewReader(out)}
				a.request("ping", map[string]any{})
				in.Close()
				want, code = `level=ERROR msg="nothing is answered over HTTP any more`, 0
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != code || strings.Count(log.String(), want) != 1 {
				t.Errorf("got %v, want %d and %s:\n%s", err, code, want, &log)
			}
		})
	}
}
