package warm

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// idleStartTimeout bounds the time until a started interpreter waits.
const idleStartTimeout = 20 * time.Second

// startIdle starts a sandbox's interpreter before it has a program, and returns when the interpreter waits.
func (b *Backend) startIdle(ctx context.Context, s *sandbox, r poolKey) (err error) {
	k := &idleProcess{key: r}
	s.setIdle(k) // for Close
	if r.script == "" || r.language == "shell" && path.Base(s.Runtime().Path) != "bash" {
		return nil
	}
	var theirs *os.File
	var env []string
	whom := byte(launch.ForProgram)
	switch r.language {
	case "python":
		if theirs, err = process.ConnectChannel(func(c io.ReadWriteCloser) { k.channel = c }, func() {}); err != nil {
			return err
		}
		defer theirs.Close()
		if s.zygote != nil {
			whom = launch.ForHeld
			break
		}
		env = []string{"PYTHONPATH=" + path.Join(backends.Workspace, hold)}
		code, err := b.bytecode(ctx, s.Runtime().Path, "hold", holdSource)
		if err != nil {
			return err
		}
		if err := s.Files().Put(hold+"/sitecustomize.pyc", 0o600, bytes.NewReader(code)); err != nil {
			return err
		}
	case "node":
		if r.env != "" {
			env = strings.Split(r.env, "\x00")
		}
		if err := s.setFifo(k, r.script); err != nil {
			return err
		}
	case "shell":
		var ours *os.File
		if theirs, ours, err = process.Pipe(1); err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		defer theirs.Close()
		k.channel, env = ours, []string{bashWaits}
		if uid := s.UID(); uid != 0 { // bash opens it by name
			if err := theirs.Chown(uid, uid); err != nil {
				return err
			}
		}
	}
	k.interpreter, err = s.StartAhead(ctx, backends.Command{Args: r.args(), Env: env}, theirs, whom)
	theirs.Close()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, idleStartTimeout)
	defer cancel()
	if err := s.awaitIdle(ctx, k); err != nil {
		return fmt.Errorf("wait for an idle %s: %w", r.language, err)
	}
	return nil
}

// hold is the directory of the sitecustomize.py that stops an idle Python, and then removes the directory.
const hold = ".hold"

// bytecode compiles source with an interpreter in a sandbox of its own.
func (b *Backend) bytecode(ctx context.Context, interpreter, name, source string) ([]byte, error) {
	b.compiling.Lock()
	defer b.compiling.Unlock()
	key := name + " " + interpreter
	if code := b.compiled[key]; code != nil {
		return code, nil
	}
	s, err := process.InTime(ctx, b.Backend, func(ctx context.Context) (*sandbox, error) {
		return b.startCold(ctx, backends.Spec{ID: "compile", Language: "python"})
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out, errs bytes.Buffer
	r, err := s.Exec(ctx, backends.Command{Args: []string{"python", "-I", "-S", "-c", compiler}},
		backends.Streams{Stdin: strings.NewReader(source), Stdout: &out, Stderr: &errs})
	if err != nil || r.Ended != backends.EndedOK {
		return nil, fmt.Errorf("compile python's start-up code: %s %v %.500s", r.Ended, err, errs.String())
	}
	b.compiled[key] = out.Bytes()
	return out.Bytes(), nil
}

//go:embed idle/compile.py
var compiler string

// holdSource is the start-up code of an idle Python that is not a fork.
//
//go:embed idle/sitecustomize.py
var holdSource string
