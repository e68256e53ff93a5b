package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// DrainTime bounds the requests that are under way when a server shuts down. Service managers kill after 30 seconds or
// more.
const DrainTime = 10 * time.Second

const (
	usualAddress = "127.0.0.1:8750"
	startWait    = 2 * time.Minute  // until a server answers: opening a large log takes long
	stopWait     = 15 * time.Second // on top of DrainTime
	poll         = 20 * time.Millisecond
	maxServerLog = 10 << 20 // bytes; the next start replaces a larger log
)

func (p commands) startCommand() *cli.Command {
	return &cli.Command{
		Name:      "start",
		Usage:     "start an HTTP server in the background",
		UsageText: "sandboxmcp start [--listen ADDRESS] [--namespace NAMESPACE] [--backend NAME] [--tools all|on] [--structured] [--json]",
		Description: `It runs sandboxmcp serve --listen ADDRESS, which outlives this terminal and logs to server.log in the state directory. A
state directory has one background server: start reports one that is running already.

Example: sandboxmcp start --listen 127.0.0.1:8750`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "listen at `ADDRESS`, as serve --listen does", DefaultText: "http.listen, or " + usualAddress},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of all callers, whatever they request"},
			&cli.StringFlag{Name: "backend", Usage: "default isolation backend `NAME`: process, podman, docker or kubernetes",
				DefaultText: command.SeeConfig},
			command.ToolsFlag("which tools are listed, as `WHICH`: all or on (those that the configuration has on)", "all"),
			&cli.BoolFlag{Name: "structured", Usage: "send structuredContent to every client"},
			command.JSONFlag(),
		},
		Action: command.NoWords(p.start),
	}
}

func (p commands) stopCommand() *cli.Command {
	return &cli.Command{
		Name:      "stop",
		Usage:     "stop the background server",
		UsageText: "sandboxmcp stop [--now] [--json]",
		Description: `Running requests have ten seconds to finish. --now kills the server and its sandboxes.

Example: sandboxmcp stop`,
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "now", Usage: "do not wait for requests under way"}, command.JSONFlag()},
		Action: command.NoWords(wiring.WithConfig(p.stop)),
	}
}

func (p commands) statusCommand() *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "list the running servers",
		UsageText:   "sandboxmcp status [--json]",
		Description: "The exit code is 1 if none is running.\n\nExample: sandboxmcp status",
		Flags:       []cli.Flag{command.JSONFlag()},
		Action:      command.NoWords(wiring.WithConfig(p.status)),
	}
}

// runningServers returns this user's servers that answer.
func runningServers(ctx context.Context, cfg config.Config) ([]control.Server, error) {
	c, err := control.Dial(ctx, wiring.SocketDir(cfg), "")
	if several, ok := errors.AsType[*control.Several](err); ok {
		return several.Servers, nil
	}
	if errors.Is(err, control.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, noServerError(err, "")
	}
	defer c.Close()
	return []control.Server{c.Server()}, nil
}

// Background is the record file of a background server, which holds it locked while it runs. A state directory has one.
type Background struct{ file *os.File }

// record is the content of the record file.
type record struct {
	PID     int       `json:"pid"`
	Began   time.Time `json:"began"`
	Address string    `json:"address"`
}

func recordPath(dir string) string { return filepath.Join(dir, "server.json") }

// LockBackground makes this process the background server of a state directory, until Close or its exit.
func LockBackground(ctx context.Context, dir string) (*Background, error) {
	f, err := statefile.LockFile(ctx, recordPath(dir), false, time.Second)
	if err != nil {
		return nil, fmt.Errorf("be the server in the background: %w", err)
	}
	b := &Background{f}
	if err := b.SetAddress(""); err != nil { // the old record may name a reused process id
		b.Close()
		return nil, err
	}
	return b, nil
}

// SetAddress records the address at which the server answers.
func (b *Background) SetAddress(address string) error {
	data, err := json.Marshal(record{os.Getpid(), time.Now(), address})
	if err == nil {
		err = b.file.Truncate(0)
	}
	if err == nil {
		_, err = b.file.WriteAt(data, 0)
	}
	return err
}

// Close releases the record.
func (b *Background) Close() { b.file.Close() }

// readBackground returns the record of the background server, and whether it is alive. The address is empty while it
// starts.
func readBackground(dir string) (r record, lives bool, err error) {
	f, err := os.OpenFile(recordPath(dir), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	defer f.Close()
	if err := statefile.TryLock(f, true); !errors.Is(err, statefile.ErrLocked) {
		return r, false, err
	}
	_ = json.NewDecoder(f).Decode(&r) // it may be incomplete during a write
	return r, true, nil
}

// startResult is the output of start.
type startResult struct {
	Started bool   `json:"started"` // false if it was running already
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
	only, err := statefile.LockFile(ctx, filepath.Join(cfg.StateDir, "start.lock"), false, startWait) // one start at a time
	if err != nil {
		return err
	}
	defer only.Close()
	s, lives, err := readBackground(cfg.StateDir)
	if err == nil && !lives {
		s, err = p.startServer(ctx, c, cfg, log)
	}
	if err != nil {
		return err
	}
	facts := startResult{!lives, s.PID, s.Address, log}
	text := "started"
	if !facts.Started {
		text = "runs already"
	}
	return p.Printf(c, facts, "%s: process %d, %s, which writes to %s\n", text, s.PID, terminal.Visible(s.Address), terminal.Visible(log))
}

// startServer starts a server and waits until it answers.
func (p commands) startServer(ctx context.Context, c *cli.Context, cfg config.Config, path string) (r record, err error) {
	program, err := os.Executable()
	if err != nil {
		return r, err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxServerLog {
		_ = os.Rename(path, path+".1")
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return r, err
	}
	defer log.Close()
	if err := log.Chmod(0o600); err != nil {
		return r, err
	}
	began, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return r, err
	}
	files, err := command.FileArgs(c)
	if err != nil {
		return r, err
	}
	cmd := exec.Command(program, files...)
	cmd.Args = append(cmd.Args, "serve", "--background", "--listen", cmp.Or(c.String("listen"), cfg.HTTP.Listen, usualAddress))
	for _, flag := range []string{"namespace", "backend", "tools", "structured"} {
		if c.IsSet(flag) {
			cmd.Args = append(cmd.Args, fmt.Sprintf("--%s=%v", flag, c.Value(flag)))
		}
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	if err := detach(cmd); err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("start a server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		r, lives, err := readBackground(cfg.StateDir)
		if lives && r.PID == cmd.Process.Pid && r.Address != "" {
			return r, nil
		}
		select {
		case <-ended:
			end, _ := io.ReadAll(io.NewSectionReader(log, began, 4<<10))
			return r, exit.Fail("sandboxmcp serve --help", "the server has ended: %s", terminal.Visible(strings.TrimSpace(string(end))))
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			return r, exit.Fail("see "+terminal.Visible(path), "the server does not answer: %v", cmp.Or(err, context.Cause(ctx)))
		case <-time.After(poll):
		}
	}
}

func (p commands) stop(ctx context.Context, c *cli.Context, cfg config.Config) error {
	s, lives, err := readBackground(cfg.StateDir)
	if err != nil {
		return err
	}
	facts := struct {
		Stopped bool `json:"stopped"`
		PID     int  `json:"pid,omitempty"`
	}{}
	if !lives || s.PID == 0 {
		return p.Printf(c, facts, "no background server is running\n")
	}
	process, err := os.FindProcess(s.PID) // on Linux a pidfd: it can't refer to a later process
	if err != nil {
		return err
	}
	defer process.Release()
	how := os.Signal(syscall.SIGTERM)
	if c.Bool("now") {
		how = os.Kill
	}
	if again, lives, _ := readBackground(cfg.StateDir); lives && again.PID == s.PID && again.Began.Equal(s.Began) {
		if err := process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("end process %d: %w", s.PID, err)
		}
	}
	for end := time.Now().Add(stopWait + DrainTime); ; time.Sleep(poll) {
		if now, lives, err := readBackground(cfg.StateDir); err != nil || !lives || !now.Began.Equal(s.Began) {
			if err != nil {
				return err
			}
			facts.Stopped, facts.PID = true, s.PID
			return p.Printf(c, facts, "stopped process %d\n", s.PID)
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return exit.Fail("sandboxmcp stop --now", "process %d is still running", s.PID)
		}
	}
}

// serverStatus describes a running server.
type serverStatus struct {
	control.Server
	Background bool `json:"background"`
	Answers    bool `json:"answers"` // to the command line
}

func (p commands) status(ctx context.Context, c *cli.Context, cfg config.Config) error {
	s, lives, err := readBackground(cfg.StateDir)
	if err != nil {
		return err
	}
	found, err := runningServers(ctx, cfg)
	all := []serverStatus{}
	for _, f := range found {
		all = append(all, serverStatus{f, lives && f.PID == s.PID, true})
	}
	if lives && !slices.ContainsFunc(all, func(f serverStatus) bool { return f.Background }) {
		all, err = append(all, serverStatus{control.Server{PID: s.PID, Began: s.Began, Address: s.Address}, true, false}), nil
	}
	if err != nil {
		return err
	}
	columns := []terminal.Column{{Name: "PROCESS", Whole: true}, {Name: "BEGAN"}, {Name: "NAMESPACE"}, {Name: "STATE"},
		{Name: "ADDRESS", Spare: true}}
	err = command.Table(p.Streams, c, all, "no server is running", columns, func(f serverStatus) []string {
		state := "runs"
		switch {
		case !f.Answers:
			state = "does not answer"
		case f.Background:
			state = "in the background"
		}
		return []string{fmt.Sprint(f.PID), terminal.Ago(time.Since(f.Began)), cmp.Or(f.Namespace, "any"), state,
			cmp.Or(f.Address, "standard input")}
	})
	return exit.UnlessOK(len(all) > 0, err)
}
