package run

import (
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// checkTTY refuses --tty without a suitable terminal or backend.
func (p commands) checkTTY(c *cli.Context) error {
	switch {
	case !c.Bool("tty"):
		return nil
	case c.Bool("json"):
		return exit.Usage("leave one of them out", "--tty and --json contradict each other")
	case !terminal.IsInteractive(p.In) || !terminal.IsTerminal(p.Out):
		return exit.Usage("leave out --tty", "--tty needs a terminal for input and output")
	}
	return nil
}

// rawTerminal is this terminal while a program in a sandbox uses it.
type rawTerminal struct {
	mu      sync.Mutex
	restore func() // nil while it is not in use
	repaint func() // has the program draw its screen again
}

// redraw has the program draw its screen again, which programs do when its size changes.
func (l *rawTerminal) redraw() {
	l.mu.Lock()
	repaint := l.repaint
	l.mu.Unlock()
	if repaint != nil {
		repaint()
	}
}

// release restores the terminal.
func (l *rawTerminal) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.restore != nil {
		l.restore()
		l.restore = nil
	}
}

// passTerminal passes this terminal to the program until release.
func (p commands) passTerminal(l *rawTerminal, r *run.Request, cfg config.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	keyboard, screen := int(p.In.(*os.File).Fd()), int(p.Out.(*command.Writer).Fd())
	old, err := term.MakeRaw(keyboard)
	if err != nil {
		return err
	}
	if r.Limits.Wall == 0 { // a script's time limit does not suit a person who types
		r.Limits.Wall = command.Seconds(cfg.Caps.TimeoutSeconds)
	}
	r.Stdin = p.In // even if the code came from there
	name := os.Getenv("TERM")
	if !namePattern().MatchString(name) {
		name = "dumb"
	}
	r.Env = append([]string{"TERM=" + name}, r.Env...)
	sizes, done := make(chan backends.Size), make(chan struct{})
	r.Terminal = &backends.Terminal{Size: terminalSize(screen), Resized: sizes}
	changes, stop := console.WatchSize()
	go func() {
		for {
			select {
			case <-changes:
			case <-done:
				return
			}
			select {
			case sizes <- terminalSize(screen):
			case <-done:
				return
			}
		}
	}()
	l.repaint = func() {
		size := terminalSize(screen)
		for _, rows := range []uint16{max(size.Rows, 2) - 1, size.Rows} {
			select {
			case sizes <- backends.Size{Columns: size.Columns, Rows: rows}:
			case <-done:
			}
			time.Sleep(redrawPause)
		}
	}
	l.restore = func() {
		stop()
		close(done)
		_ = term.Restore(keyboard, old)
	}
	return nil
}

// redrawPause lets a program see each of two sizes: it asks for the size when it handles the signal.
const redrawPause = 50 * time.Millisecond

var namePattern = lazy.Regexp(`^[A-Za-z0-9+._-]{1,64}$`)

func terminalSize(fd int) backends.Size {
	columns, rows, err := term.GetSize(fd)
	if err != nil || columns <= 0 || rows <= 0 {
		return backends.Size{Columns: 80, Rows: 24}
	}
	return backends.Size{Columns: uint16(min(columns, 1<<16-1)), Rows: uint16(min(rows, 1<<16-1))}
}
