package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// server is a child that serves, with a state directory of its own and the default settings: what its user configured may
// send events to others, or keep what is measured here in a log that is there to stay.
type server struct {
	*client
	cmd   *exec.Cmd
	stdin io.Closer
	log   string  // the file that it writes its errors to
	idle  float64 // MB that it held before it was asked for anything; 0 is unknown
}

// serve starts a server, which is ended by close.
func (b *bench) serve(ctx context.Context, name string, more ...string) (*server, error) {
	s := &server{log: filepath.Join(b.dir, name+".log")}
	stderr, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	s.cmd = exec.Command(b.Program, "--config", b.settings(), "serve")
	s.cmd.Args[0] = "sandboxmcp"
	s.cmd.Env = append(b.environ(name), more...)
	s.cmd.Stderr = stderr
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
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	if err := s.initialize(ctx); err != nil {
		return nil, s.lastWords(err)
	}
	pause(ctx, 500*time.Millisecond) // what it does at its start is done then
	s.idle = resident(s.cmd.Process.Pid)
	return s, nil
}

// settings is the file that keeps the user's own settings out.
func (b *bench) settings() string { return filepath.Join(b.dir, "default.yaml") }

// environ is the caller's environment without our settings and secrets, and with another place for state and for what
// other processes of this user find a server by.
func (b *bench) environ(name string) []string {
	var env []string
	for _, kv := range b.Environ {
		if !strings.HasPrefix(kv, "SANDBOXMCP_") && !strings.HasPrefix(kv, "XDG_RUNTIME_DIR=") {
			env = append(env, kv)
		}
	}
	return append(env, "XDG_STATE_HOME="+filepath.Join(b.dir, name))
}

// untilEnd is how long a server may take to end once its input has.
const untilEnd = 10 * time.Second

func (s *server) close() {
	s.stdin.Close()
	timer := time.AfterFunc(untilEnd, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	<-s.ended // Wait closes what is read from
	_ = s.cmd.Wait()
}

// lastWords adds what a server said before it ended.
func (s *server) lastWords(err error) error {
	text, _ := os.ReadFile(s.log)
	return fmt.Errorf("%w: %s", err, lastLine(string(text)))
}
