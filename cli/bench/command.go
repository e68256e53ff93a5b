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

// clean is the environment of bare commands: Node, for one, starts otherwise with other variables.
func clean() []string { return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"} }

// grace is how long a command may take to end once nobody waits for its result. It is let alone meanwhile: what runs
// for milliseconds ends sooner than it can be told to, and puts its things in order.
const grace = 2 * time.Second

// output runs a command and returns what it wrote to standard output. What it wrote to standard error becomes the error
// if it fails.
func output(ctx context.Context, environ []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, said bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, &said
	cmd.Cancel = func() error { return nil }
	cmd.WaitDelay = grace
	err := cmd.Run()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("%s did not end in time", filepath.Base(args[0]))
	case err != nil && said.Len() > 0:
		return "", fmt.Errorf("%s: %s", filepath.Base(args[0]), lastLine(said.String()))
	case err != nil:
		return "", fmt.Errorf("%s: %w", filepath.Base(args[0]), err)
	}
	return out.String(), nil
}

// lastLine is where most programs say why they failed.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// installed returns where a tool is, or says that it is not there.
func installed(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("not installed")
	}
	return filepath.Abs(path)
}

// runs returns what a way does that is a command.
func runs(environ []string, args ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return output(ctx, environ, args...) }
}
