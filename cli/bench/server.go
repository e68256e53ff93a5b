package bench

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// server is a child that serves, with a state folder of its own and the default settings: what its user configured may
// send events to others, or keep what is measured here in a log that is there to stay.
type server struct {
	*client
	cmd   *exec.Cmd
	stdin io.Closer
	said  *said
	idle  float64 // MB that it held before it was asked for anything; 0 is unknown
}

// serve starts a server, which is ended by close.
func (b *bench) serve(ctx context.Context, name string, more ...string) (*server, error) {
	s := &server{said: &said{}}
	s.cmd = exec.Command(b.Program, b.global("serve", "--structured")...)
	s.cmd.Args[0] = "sandboxmcp"
	s.cmd.Env = append(b.environ(name), more...)
	s.cmd.Stderr = s.said
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s.client, s.stdin = connect(in, out), in
	b.servers = append(b.servers, s)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.initialize(ctx); err != nil {
		return nil, fmt.Errorf("%w: %s", err, s.said.last())
	}
	pause(ctx, 500*time.Millisecond) // what it does at its start is done then
	s.idle = resident(s.cmd.Process.Pid)
	return s, nil
}

// global puts the flags before a command that keep the user's own settings out.
func (b *bench) global(command ...string) []string {
	return append([]string{"--config", filepath.Join(b.dir, "default.yaml")}, command...)
}

// environ is the caller's environment without our settings and secrets, and with another folder for state.
func (b *bench) environ(name string) []string {
	var env []string
	for _, kv := range b.Environ {
		if !strings.HasPrefix(kv, "SANDBOXMCP_") {
			env = append(env, kv)
		}
	}
	return append(env, "XDG_STATE_HOME="+filepath.Join(b.dir, name))
}

// ending is how long a server may take to end once its input has.
const ending = 10 * time.Second

func (s *server) close() {
	s.stdin.Close()
	timer := time.AfterFunc(ending, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	<-s.ended // Wait closes what is read from
	_ = s.cmd.Wait()
}

// said keeps the last words of a server.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	if most := 8 << 10; len(s.text) > most {
		s.text = append(s.text[:0], s.text[len(s.text)-most:]...)
	}
	return len(b), nil
}

func (s *said) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lastLine(string(s.text))
}
