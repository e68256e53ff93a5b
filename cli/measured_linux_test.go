package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
)

// serveMeasured runs the program's serve. On each byte from descriptor 3 it collects garbage and writes the remaining
// heap size to descriptor 4.
func serveMeasured() int {
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	go func() {
		asked, answers := os.NewFile(3, "asked"), json.NewEncoder(os.NewFile(4, "answers"))
		for b := make([]byte, 1); ; {
			if _, err := asked.Read(b); err != nil {
				return
			}
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if answers.Encode(footprint{"heap": int64(m.HeapAlloc), "goroutines": int64(runtime.NumGoroutine())}) != nil {
				return
			}
		}
	}()
	p := &program{command.NewStreams(os.Stdin, os.Stdout, os.Stderr), time.Second}
	return p.main([]string{"sandboxmcp", "serve", "--structured"}, os.Stdout)
}

// measured is a running serveMeasured. Calls may be concurrent.
type measured struct {
	cmd     *exec.Cmd
	home    string // holds all its files
	ask     io.Writer
	answers *json.Decoder

	writing sync.Mutex
	in      io.WriteCloser

	mu     sync.Mutex
	calls  int
	waits  map[int]chan json.RawMessage
	gone   error
	stderr bytes.Buffer
}

func startMeasured(t *testing.T) *measured {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &measured{cmd: exec.Command(exe), home: t.TempDir(), waits: map[int]chan json.RawMessage{}}
	for _, dir := range []string{"tmp", "sandboxmcp"} {
		if err := os.Mkdir(filepath.Join(s.home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	settings := "max_concurrent: 16\nkeep: {max_mb: 1}\n"
	if err := os.WriteFile(filepath.Join(s.home, "sandboxmcp", "config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cmd.Env = append(os.Environ(), "SANDBOXMCP_TEST_ROLE=serve", "XDG_CONFIG_HOME="+s.home, "XDG_STATE_HOME="+s.home, "XDG_RUNTIME_DIR=",
		"TMPDIR="+filepath.Join(s.home, "tmp"), "SANDBOXMCP_SECRET_DEFAULT_"+leasedSecret+"="+"a-word-that-"+"is-lent")
	s.cmd.Stderr = &lockedWriter{&s.mu, &s.stderr}
	asked, ask, err1 := os.Pipe()
	answers, answer, err2 := os.Pipe()
	in, err3 := s.cmd.StdinPipe()
	out, err4 := s.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	s.cmd.ExtraFiles = []*os.File{asked, answer}
	s.ask, s.answers, s.in = ask, json.NewDecoder(answers), in
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked.Close()
	answer.Close()
	t.Cleanup(func() { s.stop(t) })
	go s.read(out)
	if _, err := s.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// stop ends the server as clients do, and checks that nothing is left.
func (s *measured) stop(t *testing.T) {
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v:\n%s", err, s.errors())
	}
	hosttest.Until(t, "no process of the server is left", func() bool { return len(reapOrphans()) == 0 })
	if n := s.countCgroups(); n > 0 {
		t.Errorf("the server has ended, and %d cgroups are left", n)
	}
}

// lockedWriter is a buffer that is safe for concurrent use.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (s *measured) errors() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// read dispatches the responses until the server ends.
func (s *measured) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		var m struct {
			ID     any // null for a malformed message
			Result json.RawMessage
			Error  any
		}
		if err == nil {
			err = json.Unmarshal(line, &m)
		}
		s.mu.Lock()
		if err != nil {
			s.gone = fmt.Errorf("the server is gone: %w", err)
			for _, w := range s.waits {
				close(w)
			}
			s.waits = nil
			s.mu.Unlock()
			return
		}
		id, _ := m.ID.(float64)
		if w := s.waits[int(id)]; w != nil {
			delete(s.waits, int(id))
			w <- m.Result
		}
		s.mu.Unlock()
	}
}

// write writes one line, atomically.
func (s *measured) write(line []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.in.Write(line)
	return err
}

func (s *measured) request(method string, params any) (json.RawMessage, error) {
	s.mu.Lock()
	if s.gone != nil {
		s.mu.Unlock()
		return nil, s.gone
	}
	s.calls++
	m, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.calls, "method": method, "params": params})
	answer := make(chan json.RawMessage, 1)
	s.waits[s.calls] = answer
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.write(append(m, '\n')); err != nil {
		return nil, err
	}
	if result, ok := <-answer; ok {
		return result, nil
	}
	return nil, s.gone
}

// answered holds the parts of a response that tests check.
type answered struct {
	Text, Ended, Stdout string
	SessionID           string `json:"session_id"`
	Warm                bool
	Cold                string
	Pools               []pooled
}

type pooled struct {
	Language     string
	Ready        int
	Hits, Misses int64
	Cold         map[string]int64
}

// call calls a tool.
func (s *measured) call(tool string, arguments map[string]any) (answered, error) {
	result, err := s.request("tools/call", map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return answered{}, err
	}
	var got struct {
		StructuredContent *answered
		IsError           bool
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return answered{}, err
	}
	if got.StructuredContent == nil || got.IsError {
		return answered{}, fmt.Errorf("%s", result)
	}
	return *got.StructuredContent, nil
}

func (s *measured) pools(t *testing.T) []pooled {
	t.Helper()
	got, err := s.call("sandbox_stats", nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Pools
}
