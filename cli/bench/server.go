package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// findServers starts servers and adds their methods to run the programs: in warm sandboxes, and in a session. A further
// server is for run to hand over to, since its pool holds other kinds of programs.
func (b *bench) findServers(ctx context.Context, programs []program) {
	warm, err := b.startServer(ctx, Warm)
	if err != nil {
		b.leaveOut(Warm, err)
		return
	}
	if _, err := b.startServer(ctx, Served); err != nil {
		b.leaveOut(Served, err)
	}
	for _, p := range programs {
		var made struct {
			ID string `json:"session_id"`
		}
		err := warm.call(ctx, "create_session", map[string]any{"language": p.language}, &made)
		b.methods = append(b.methods,
			&method{language: p.language, name: Warm, what: p.code, loaded: true, pooled: true,
				once: warm.execute(map[string]any{"language": p.language, "code": p.code})},
			&method{language: p.language, name: Session, what: p.cell, silent: true,
				once: warm.execute(map[string]any{"session_id": made.ID, "code": p.cell}), broken: err})
	}
}

// server is a child process that serves over stdio, as for an agent. It has its own state directory and default
// settings: the user's settings might export events, or fill a log that is meant to last. Calls may be concurrent.
type server struct {
	log     string // path of the file that receives its stderr
	mu      sync.Mutex
	in      io.Writer
	calls   int
	waiting map[int]chan message
	ended   chan struct{} // closed after the last message
}

// message is a message of a server.
type message struct {
	ID     *int   `json:"id"`
	Method string `json:"method"` // empty in responses; requests and notifications have it
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	Result struct {
		IsError    bool            `json:"isError"`
		Structured json.RawMessage `json:"structuredContent"`
		Content    []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
}

// startServer starts a server, which runs until the measurement ends.
func (b *bench) startServer(ctx context.Context, name string) (*server, error) {
	s := &server{log: filepath.Join(b.dir, name+".log"), waiting: map[int]chan message{}, ended: make(chan struct{})}
	stderr, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd := exec.Command(b.Program, "--config", b.settingsFile(), "serve", "--structured")
	cmd.Args[0], cmd.Env, cmd.Stderr = "sandboxmcp", b.environ(name), stderr
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s.in = in
	go s.dispatch(bufio.NewReaderSize(out, 64<<10))
	b.closers = append(b.closers, func() {
		in.Close()
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		<-s.ended // Wait closes the pipe that read reads
		_ = cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	_, err = s.request(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "sandboxmcp bench",
			"version": "1"}})
	if err == nil {
		_, err = io.WriteString(in, `{"jsonrpc": "2.0", "method": "notifications/initialized"}`+"\n")
	}
	sleep(ctx, 500*time.Millisecond) // time for the work at its start
	return s, err
}

// enginesState is the name of the state of runs in containers.
const enginesState = "engines"

// environ returns the caller's environment without our settings and secrets, with state in a directory of its own.
// XDG_RUNTIME_DIR, by which processes of this user find a server, stays only for engines: an ordinary user's engines
// may listen there.
func (b *bench) environ(state string) (env []string) {
	for _, kv := range b.Environ {
		if !strings.HasPrefix(kv, "SANDBOXMCP_") && (state == enginesState || !strings.HasPrefix(kv, "XDG_RUNTIME_DIR=")) {
			env = append(env, kv)
		}
	}
	return append(env, "XDG_STATE_HOME="+filepath.Join(b.dir, state))
}

func (s *server) dispatch(out *bufio.Reader) {
	defer close(s.ended)
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil || m.ID == nil || m.Method != "" {
			continue
		}
		s.mu.Lock()
		answer := s.waiting[*m.ID]
		delete(s.waiting, *m.ID)
		s.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
}

// exitError returns the error of a server that has ended, from the end of its log.
func (s *server) exitError() error {
	text, _ := os.ReadFile(s.log)
	return errors.New("the server has ended: " + lastLine(string(text)))
}

// request sends a request and returns the response. An error response is an error.
func (s *server) request(ctx context.Context, method string, params any) (m message, err error) {
	answer := make(chan message, 1)
	s.mu.Lock()
	s.calls++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.calls, "method": method, "params": params})
	s.waiting[s.calls] = answer
	if err == nil {
		_, err = s.in.Write(append(line, '\n'))
	}
	s.mu.Unlock()
	if err != nil {
		return m, s.exitError()
	}
	select {
	case m = <-answer:
		if m.Error != nil {
			err = errors.New(m.Error.Message)
		}
		return m, err
	case <-ctx.Done():
		return m, ctx.Err()
	case <-s.ended:
		return m, s.exitError()
	}
}

// call calls a tool and decodes its structured result into result. A refusal by the tool is an error.
func (s *server) call(ctx context.Context, tool string, arguments map[string]any, result any) error {
	m, err := s.request(ctx, "tools/call", map[string]any{"name": tool, "arguments": arguments})
	if err == nil && m.Result.IsError && len(m.Result.Content) > 0 {
		err = errors.New(m.Result.Content[0].Text)
	}
	if err == nil {
		err = json.Unmarshal(m.Result.Structured, result)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return nil
}

// execute returns a run by the tool execute_code, for a method.
func (s *server) execute(arguments map[string]any) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var e struct {
			Stdout, Stderr, Ended string
			Refused               *struct{ Reason string }
		}
		err := s.call(ctx, "execute_code", arguments, &e)
		if err == nil && e.Refused != nil {
			err = errors.New(e.Refused.Reason)
		} else if err == nil && e.Ended != "ok" {
			err = fmt.Errorf("it ended with %s: %s", e.Ended, lastLine(e.Stderr))
		}
		return e.Stdout, err
	}
}
