package enginecheck_test

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// eachEngine runs a test with each engine on this machine.
func eachEngine(t *testing.T, f func(t *testing.T, kind string)) {
	for _, kind := range backendKinds[1:] {
		t.Run(kind, func(t *testing.T) { f(t, kind) })
	}
}

// newCommand returns a command of sandboxmcp, which is this test binary.
func (s *scene) newCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, append([]string{"--config", s.config()}, args...)...)
	cmd.Env = s.environ()
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// TestKilledRuns kills the command at random moments. Its containers end with it; the next run removes those that were
// created and not yet started.
func TestKilledRuns(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind string) {
		s := newScene(t, kind)
		marker := "marker-" + crand.Text()
		script := s.dir + "/run.sh"
		if err := os.WriteFile(script, []byte("echo done; (exec -a \"$1\" sleep 300) & exec -a \"$1\" sleep 0.05"), 0o644); err != nil {
			t.Fatal(err)
		}
		rounds := hosttest.Rounds(6, 25)
		acknowledged := 0
		for i := range rounds {
			// Delays spread over the whole duration of an undisturbed run.
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*1500*time.Millisecond/time.Duration(rounds)+
				time.Duration(rand.IntN(60))*time.Millisecond)
			out, err := s.newCommand(ctx, "run", "--json", script, "--", marker).Output()
			cancel()
			if err == nil && strings.Contains(string(out), `"ended":"ok"`) {
				acknowledged++
			}
		}
		t.Logf("%d of %d runs were acknowledged", acknowledged, rounds)
		if acknowledged == rounds {
			t.Error("none was killed")
		}
		if out, err := s.newCommand(t.Context(), "run", script, "--", marker).CombinedOutput(); err != nil {
			t.Errorf("a run after the kills: %v: %s", err, out)
		}
		s.waitUntilClean(t, marker, true)
		s.checkLog(t, acknowledged)
	})
}

// checkLog checks that the audit log is intact and contains the acknowledged runs.
func (s *scene) checkLog(t *testing.T, acknowledged int) {
	t.Helper()
	log, err := audit.Open(t.Context(), s.dir+"/sandboxmcp/sandboxmcp.db")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if report, err := log.Verify(t.Context(), audit.VerifyOptions{}); err != nil || report.Bad != nil {
		t.Errorf("the log is not whole: %v, %+v", err, report.Bad)
	}
	completed := 0
	for _, err := range log.Rows(t.Context(), audit.Filter{Kinds: []string{"execution.completed"}}) {
		if err != nil {
			t.Fatal(err)
		}
		completed++
	}
	if completed < acknowledged {
		t.Errorf("%d runs were acknowledged, and the log has %d", acknowledged, completed)
	}
}

// server is an MCP server process that tests kill.
type server struct {
	*testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	id    int
}

func (s *scene) serve(t *testing.T) *server {
	t.Helper()
	cmd := s.newCommand(t.Context(), "serve")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v := &server{T: t, cmd: cmd, in: in, lines: bufio.NewScanner(out)}
	v.lines.Buffer(nil, 16<<20)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the server said: %s", log.String())
		}
	})
	v.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}})
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return v
}

// send sends a request without waiting for the response.
func (v *server) send(method string, params any) int {
	v.Helper()
	v.id++
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": v.id, "method": method, "params": params})
	if err != nil {
		v.Fatal(err)
	}
	fmt.Fprintf(v.in, "%s\n", b)
	return v.id
}

// request sends a request, waits for the response and returns its result.
func (v *server) request(method string, params any) json.RawMessage {
	v.Helper()
	id := v.send(method, params)
	for v.lines.Scan() {
		var a struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if json.Unmarshal(v.lines.Bytes(), &a) == nil && a.ID == id {
			if a.Error != nil {
				v.Fatalf("%s: %s", method, a.Error)
			}
			return a.Result
		}
	}
	v.Fatalf("%s: the server has ended: %v", method, v.lines.Err())
	return nil
}

func (v *server) call(tool string, arguments map[string]any) string {
	v.Helper()
	return string(v.request("tools/call", map[string]any{"name": tool, "arguments": arguments}))
}

// stop closes the server's input and waits for its exit.
func (v *server) stop() {
	v.Helper()
	v.in.Close()
	if err := v.cmd.Wait(); err != nil {
		v.Errorf("the server ended with %v", err)
	}
}

func (v *server) kill() {
	v.cmd.Process.Kill()
	v.cmd.Wait()
}

// TestKilledServer kills servers that have sessions, a run in progress and idle containers.
func TestKilledServer(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind string) {
		s := newScene(t, kind)
		marker := "marker-" + crand.Text()
		code := fmt.Sprintf("import subprocess; p = subprocess.Popen(['bash', '-c', 'exec -a %s sleep 300'])", marker)
		for _, programs := range []int{2, 3} { // programs of the sessions, and of a run
			v := s.serve(t)
			for range 2 {
				session := textBetween(v.call("create_session", map[string]any{"language": "python"}), "session_id: ", `\n`)
				if output := v.call("execute_code", map[string]any{"session_id": session, "code": code}); session == "" ||
					strings.Contains(output, `"isError":true`) {
					t.Fatalf("session %q: %s", session, output)
				}
			}
			v.send("tools/call", map[string]any{"name": "execute_code", "arguments": map[string]any{"language": "python",
				"code": code + "; p.wait()"}})
			hosttest.Until(t, "the programs run", func() bool { return len(commandLines(marker)) >= programs })
			v.kill()
			s.waitUntilClean(t, marker, false)
		}
		// The next server removes containers that were only created.
		next := s.serve(t)
		next.call("execute_code", map[string]any{"language": "shell", "code": "echo well"})
		next.stop()
		s.waitUntilClean(t, marker, true)
	})
}

func textBetween(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

// runAndInterfere runs a program that ends once there is a file "go", calls do after the program has started, and returns
// the outcome when both are done.
func runAndInterfere(t *testing.T, b *bench, do func()) (pipeline.Outcome, error) {
	t.Helper()
	begun, done := sync.Once{}, make(chan struct{})
	disturb := func() { do(); close(done) }
	q := run.Request{Language: "shell", Name: "program", Code: []byte("echo begun; until [ -e /data/go ]; do sleep 0.05; done; echo end"),
		HostFiles: run.HostFiles{Mounts: []backends.Mount{{Host: b.host + "/data", Inside: "/data"}}},
		Bounds:    pipeline.Bounds{Limits: backends.Limits{Wall: 10 * time.Minute}},
		Streams:   run.Streams{Stdout: onWrite{func() { begun.Do(func() { go disturb() }) }}}}
	_, res, err := pipeline.Do(t.Context(), b.Pipeline, q)
	begun.Do(disturb)
	<-done
	return res, err
}

// TestRemovedByOthers removes a container while a program runs in it. That must not count as the program's result.
func TestRemovedByOthers(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind string) {
		if !hasEngine(t, kind) {
			t.SkipNow()
		}
		b := newBench(t, kind, newSites(t))
		engine := engineOf(t, kind, engineURLs()[kind](t))
		defer engine.Close()
		if _, err := engine.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, err := runAndInterfere(t, b, func() {
			all, err := engine.List(context.Background(), container.LabelInstance)
			if err != nil || len(all) == 0 {
				t.Errorf("list: %v %v", all, err)
			}
			for _, c := range all {
				if err := engine.Remove(context.Background(), c.ID); err != nil {
					t.Errorf("remove: %v", err)
				}
			}
		})
		if err == nil || !strings.Contains(err.Error(), "container") || !strings.Contains(err.Error(), "removed") &&
			!strings.Contains(err.Error(), "killed") && !strings.Contains(err.Error(), "signal 9") {
			t.Errorf("got %s %d, %v, want an error that says what became of the container", res.Ended, res.ExitCode, err)
		}
		checkNextRun(t, b)
	})
}

// TestEngineRestarts kills and restarts the engine during a run, which either does not notice or reports the reason.
// The program is not run again.
func TestEngineRestarts(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind string) {
		if !hasEngine(t, kind) {
			t.SkipNow()
		}
		s := newScene(t, kind)
		b := newBench(t, kind, newSites(t))
		res, err := runAndInterfere(t, b, func() {
			enginetest.Restart(t, s.url)
			os.WriteFile(b.host+"/data/go", nil, 0o644)
		})
		if err == nil && (res.Ended != "ok" || res.Stdout != "begun\nend\n") || err != nil && !strings.Contains(err.Error(), "container") &&
			!strings.Contains(err.Error(), kind) {
			t.Errorf("got %s %q, %v", res.Ended, res.Stdout, err)
		}
		t.Logf("%s: %s, %v", kind, res.Ended, err)
		checkNextRun(t, b)
		b.backend.Close()
		s.waitUntilClean(t, "", true)
	})
}

// checkNextRun checks that the next run is undisturbed.
func checkNextRun(t *testing.T, b *bench) {
	t.Helper()
	_, res, err := pipeline.Do(t.Context(), b.Pipeline, run.Request{Language: "shell", Name: "program", Code: []byte("echo well")})
	if err != nil || res.Stdout != "well\n" {
		t.Errorf("afterwards: %s %q %s, %v", res.Ended, res.Stdout, res.Stderr, err)
	}
}
