package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Clean is the environment of bare commands: Node, for one, starts otherwise with other variables.
func Clean() []string { return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"} }

// grace is how long a command may take to end once nobody waits for its result. It is let alone meanwhile: what runs
// for milliseconds ends sooner than it can be told to, and puts its things in order.
const grace = 2 * time.Second

// Output runs a command and returns what it wrote to standard output. What it wrote to standard error becomes the error
// if it fails.
func Output(ctx context.Context, environ []string, args ...string) (string, error) {
	cmd := command(ctx, environ, args...)
	err := finish(cmd)
	return cmd.Stdout.(*bytes.Buffer).String(), err
}

// Runs returns what a way does that is a command.
func Runs(environ []string, args ...string) func(context.Context) (Answer, error) {
	return func(ctx context.Context) (Answer, error) {
		out, err := Output(ctx, environ, args...)
		return Answer{Out: out}, err
	}
}

func command(ctx context.Context, environ []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Cancel = func() error { return nil }
	cmd.WaitDelay = grace
	return cmd
}

func finish(cmd *exec.Cmd) error {
	err, name := cmd.Run(), filepath.Base(cmd.Path)
	stderr := cmd.Stderr.(*bytes.Buffer).String()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not end in time", name)
	case stderr != "":
		return fmt.Errorf("%s: %s", name, lastLine(stderr))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// lastLine returns the last line of a text, where most programs say why they failed.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
