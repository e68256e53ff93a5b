package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

const (
	usualAddress = "127.0.0.1:8750"
	startWait    = 30 * time.Second // until a server answers: it opens a log that may be large
	stopWait     = 15 * time.Second // beside http.drain_seconds
	poll         = 20 * time.Millisecond
	maxServerLog = 10 << 20 // bytes, with which the next start begins a new one
)

func (p commands) startCommand() *cli.Command {
	return &cli.Command{
		Name:      "start",
		Usage:     "start a server in the background, that answers over HTTP",
		UsageText: "sandboxmcp start [--listen ADDRESS] [--namespace NAMESPACE] [--backend NAME] [--json]",
		Description: `It is sandboxmcp serve --listen ADDRESS, which goes on when this terminal is closed. It writes to server.log in the state
directory. There is one for a state directory: where it runs already, start says so.

Example: sandboxmcp start --listen 127.0.0.1:8750`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "answer at `ADDRESS`, as serve --listen has it", DefaultText: "http.listen, or " + usualAddress},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` that all callers work in, whatever they ask for"},
			&cli.StringFlag{Name: "backend", Usage: "`NAME` of what contains code that names nothing else: process, podman or docker", DefaultText: command.Configured},
			command.JSONFlag(),
		},
		Action: command.NoWords(p.start),
	}
}

func (p commands) stopCommand() *cli.Command {
	return &cli.Command{
		Name:      "stop",
		Usage:     "end the server that start has started",
		UsageText: "sandboxmcp stop [--now] [--json]",
		Description: `Requests under way have http.drain_seconds to end. --now kills the server: its sandboxes end with it.

Example: sandboxmcp stop`,
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "now", Usage: "do not wait for requests under way"}, command.JSONFlag()},
		Action: command.NoWords(p.stop),
	}
}

func (p commands) statusCommand() *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "list the servers that run",
		UsageText:   "sandboxmcp status [--json]",
		Description: "The exit code is 1 if there is none.\n\nExample: sandboxmcp status",
		Flags:       []cli.Flag{command.JSONFlag()},
		Action:      command.NoWords(p.status),
	}
}

// servers returns the servers of this user that answer.
func servers(ctx context.Context, cfg config.Config) ([]control.Server, error) {
	c, err := control.Dial(ctx, wiring.SocketDir(cfg), "")
	if several, ok := errors.AsType[*control.Several](err); ok {
		return several.Servers, nil
	}
	if errors.Is(err, control.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, noServer(err, "")
	}
	defer c.Close()
	return []control.Server{c.Server()}, nil
}

// background returns the server that start has started, or nil.
func background(ctx context.Context, cfg config.Config) (*control.Server, error) {
	all, err := servers(ctx, cfg)
	for _, s := range all {
		if s.Background {
			return &s, err
		}
	}
	return nil, err
}

// startedFacts say what start has done.
type startedFacts struct {
	Started bool   `json:"started"` // false: it ran already
	PID     int    `json:"pid"`
	Address string `json:"address"`
	Log     string `json:"log"`
}

func (p commands) start(c *cli.Context) error {
	cfg, err := wiring.Load(c, "backend")
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	log := filepath.Join(cfg.StateDir, "server.log")
	done, err := oneStart(cfg.StateDir)
	if err != nil {
		return err
	}
	defer done()
	s, err := background(ctx, cfg)
	if err != nil {
		return err
	}
	facts := startedFacts{Log: log, Started: s == nil}
	if s == nil {
		if s, err = p.spawn(ctx, c, cfg, log); err != nil {
			return err
		}
	}
	facts.PID, facts.Address = s.PID, s.Address
	text := "started"
	if !facts.Started {
		text = "runs already"
	}
	return p.Printf(c, facts, "%s: process %d, %s, which writes to %s\n", text, s.PID, terminal.Visible(s.Address), terminal.Visible(log))
}

// oneStart returns when no other start is under way in a state directory. done lets the next one begin.
func oneStart(dir string) (done func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "server.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(startWait); ; time.Sleep(poll) {
		err := statefile.TryLock(f, false)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, statefile.ErrLocked) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("wait for another start: %w", err)
		}
	}
}

// spawn starts a server, and returns when it answers.
func (p commands) spawn(ctx context.Context, c *cli.Context, cfg config.Config, path string) (*control.Server, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxServerLog {
		_ = os.Rename(path, path+".1")
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	began, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	for _, flag := range []string{"config", "db"} {
		if value := c.String(flag); value != "" {
			if value, err = filepath.Abs(value); err != nil {
				return nil, err
			}
			cmd.Args = append(cmd.Args, "--"+flag, value)
		}
	}
	cmd.Args = append(cmd.Args, "serve", "--background", "--listen", cmp.Or(c.String("listen"), cfg.HTTP.Listen, usualAddress))
	for _, flag := range []string{"namespace", "backend"} {
		if c.IsSet(flag) {
			cmd.Args = append(cmd.Args, "--"+flag, c.String(flag))
		}
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	if err := detached(cmd); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		all, err := servers(ctx, cfg)
		if i := slices.IndexFunc(all, func(s control.Server) bool { return s.PID == cmd.Process.Pid }); i >= 0 {
			return &all[i], nil
		}
		select {
		case <-ended:
			end, _ := io.ReadAll(io.NewSectionReader(log, began, 4<<10))
			return nil, exit.Fail("sandboxmcp serve --help", "the server has ended: %s", terminal.Visible(string(end)))
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			return nil, exit.Fail("see "+terminal.Visible(path), "the server does not answer: %v", cmp.Or(err, context.Cause(ctx)))
		case <-time.After(poll):
		}
	}
}

func (p commands) stop(c *cli.Context) error {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	ctx, cancel := command.UntilSignal(c)
	defer cancel()
	s, err := background(ctx, cfg)
	if err != nil {
		return err
	}
	facts := struct {
		Stopped bool `json:"stopped"`
		PID     int  `json:"pid,omitempty"`
	}{}
	if s == nil {
		return p.Printf(c, facts, "no server runs in the background\n")
	}
	process, err := os.FindProcess(s.PID) // which is that process from now on, as Linux has handles of processes
	if err != nil {
		return err
	}
	defer process.Release()
	if again, err := background(ctx, cfg); err != nil || again == nil || !again.Began.Equal(s.Began) {
		return cmp.Or(err, p.Printf(c, facts, "the server has just ended\n"))
	}
	how := os.Signal(syscall.SIGTERM)
	if c.Bool("now") {
		how = os.Kill
	}
	if err := process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end process %d: %w", s.PID, err)
	}
	for end := time.Now().Add(stopWait + time.Duration(cfg.HTTP.DrainSeconds)*time.Second); process.Signal(syscall.Signal(0)) == nil; time.Sleep(poll) {
		if time.Now().After(end) || ctx.Err() != nil {
			return exit.Fail("sandboxmcp stop --now", "process %d still ends", s.PID)
		}
	}
	facts.Stopped, facts.PID = true, s.PID
	return p.Printf(c, facts, "stopped process %d\n", s.PID)
}

func (p commands) status(c *cli.Context) error {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	ctx, cancel := command.UntilSignal(c)
	defer cancel()
	all, err := servers(ctx, cfg)
	if err != nil {
		return err
	}
	err = p.Print(c, append([]control.Server{}, all...), func(w io.Writer) error {
		t := terminal.NewTable(w, terminal.Column{Name: "PROCESS", Whole: true}, terminal.Column{Name: "BEGAN"}, terminal.Column{Name: "NAMESPACE"}, terminal.Column{Name: "ADDRESS", Spare: true})
		t.Empty = "no server runs"
		for _, s := range all {
			t.Row(fmt.Sprint(s.PID), terminal.Ago(time.Since(s.Began)), cmp.Or(s.Namespace, "any"), cmp.Or(s.Address, "standard input"))
		}
		return t.Close()
	})
	return exit.Unless(len(all) > 0, err)
}
