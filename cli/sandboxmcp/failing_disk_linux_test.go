package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// failCalls makes system calls of the server fail, until stop.
func (s *fullServer) failCalls(calls string) (stop func()) {
	s.t.Helper()
	strace := exec.Command(hosttest.Program(s.t, "strace"), "-f", "-o", "/dev/null", "-p", strconv.Itoa(s.cmd.Process.Pid), "-e",
		"trace="+calls, "-e", "inject="+calls+":error=EIO")
	output, err := strace.StderrPipe()
	if err == nil {
		err = strace.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	if line, _ := lines.ReadString('\n'); !strings.Contains(line, "attached") {
		hosttest.SkipMissing(s.t, "strace", "strace can't trace here: "+line)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return func() {
		_ = strace.Process.Signal(syscall.SIGINT)
		_ = strace.Wait()
	}
}

// A failing disk makes the server unready, and nothing is acknowledged. Errors for clients name no file of the host.
// The server continues when the disk works again.
func TestFailingDisk(t *testing.T) {
	requireFeatures(t, "sandbox")
	for _, calls := range []string{"fsync,fdatasync", "pread64"} {
		t.Run(calls, func(t *testing.T) {
			s := &fullServer{t: t, home: t.TempDir(), tokens: map[string]string{}}
			config := filepath.Join(s.home, "config", "sandboxmcp", "config.yaml")
			err := os.MkdirAll(filepath.Dir(config), 0o700)
			if err == nil {
				err = os.WriteFile(config, []byte("pool: false\n"), 0o600) // strace loses processes that are spawned below it
			}
			if err != nil {
				t.Fatal(err)
			}
			s.start()
			const code = `{"language":"shell","code":"echo hi"}`
			var ran struct {
				Result struct {
					RequestID string `json:"request_id"`
				}
			}
			s.getJSON(&ran, "POST", "/v1/tools/execute_code", "f1", code)
			call := s.beginMCP()
			stop := s.failCalls(calls)
			defer stop()
			for range 3 {
				var texts []string
				begin := [][]string{{"POST", "/v1/tools/execute_code", "f1", code}, {"POST", "/sessions", "f1", "{}"}}
				tools := map[string]string{"execute_code": code, "create_session": "{}", "audit_execution": `{"request_id":"` + ran.Result.RequestID +
					`"}`}
				if calls == "pread64" { // rows can be written, and programs started
					begin = nil
					delete(tools, "execute_code")
					delete(tools, "create_session")
				}
				for _, q := range append(begin, [][]string{
					{"POST", "/v1/tools/audit_execution", "f1", `{"request_id":"` + ran.Result.RequestID + `"}`},
					{"GET", "/v1/log", "p", ""}, {"GET", "/v1/figures", "p", ""}, {"GET", "/v1/log/" + ran.Result.RequestID, "p", ""},
					{"GET", "/v1/log/" + ran.Result.RequestID + "/evidence", "p", ""}, {"GET", "/v1/stored", "p", ""},
					{"POST", "/v1/grants", "p", `{"kind":"egress","what":"c.example","namespace":"team"}`}, {"GET", "/v1/secrets?namespace=team", "p", ""},
				}...) {
					res, text := s.request(q[0], q[1], q[2], q[3])
					if texts = append(texts, q[1]+": "+text); res.StatusCode == 200 && q[1] == "/v1/tools/execute_code" {
						t.Errorf("it was run: %s", text)
					}
				}
				for tool, arguments := range tools {
					_, text := call(tool, arguments)
					texts = append(texts, tool+": "+text)
				}
				res, text := s.request("GET", "/readyz", "", "")
				if calls != "pread64" && res.StatusCode != 503 {
					t.Errorf("/readyz: %d %s", res.StatusCode, text)
				}
				for _, text := range append(texts, text) {
					if strings.Contains(text, s.home) || strings.Contains(text, "sandboxmcp.db") {
						t.Errorf("it names a file of the host: %s", text)
					}
				}
			}
			stop()
			hosttest.Until(t, "it is ready again", func() bool { return s.statusOf("GET", "/readyz", "") == 200 })
			hosttest.Until(t, "runs go on", func() bool {
				res, _ := s.request("POST", "/v1/tools/execute_code", "f1", code)
				return res.StatusCode == 200
			})
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, &s.log)
			}
			if out, err := command(t.Context(), t, s.home, "audit", "verify").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
