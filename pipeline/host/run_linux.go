package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// killTimeout bounds the wait for processes that the kernel can't kill at once.
const killTimeout = 10 * time.Second

// Exec runs a command, without a shell and without a terminal, and returns when it and its descendants are gone. If
// ctx ends before, the command is killed, and the error is that of ctx.
func (r Run) Exec(ctx context.Context) (End, error) {
	if !r.Program.isUnchanged() {
		return End{}, fmt.Errorf("run %s: the file was changed just now", r.Program.Path)
	}
	orders, order, err := os.Pipe()
	if err != nil {
		return End{}, err
	}
	defer order.Close()
	answers, answer, err := os.Pipe()
	if err != nil {
		orders.Close()
		return End{}, err
	}
	defer answers.Close()
	g, home, enforcedBy := r.Cage.group(r.Bounds)
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env = []string{role.HostCommand}, []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Stdin, r.Stdout, r.Stderr
	cmd.ExtraFiles = slices.Concat([]*os.File{orders, answer}, g.JoinFiles(), home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error {
		_ = g.Kill(0) // at once; the launch process handles the rest
		return order.Close()
	}
	cmd.WaitDelay = killTimeout
	err = cmd.Start()
	orders.Close()
	answer.Close()
	backends.CloseAll(home)
	e := End{}
	if err != nil {
		err = fmt.Errorf("start the launch process: %w", err)
	} else {
		task := launch.Task{Path: r.Program.Path, Args: r.Words, Env: r.Env, Directory: r.Directory, Bounds: r.Bounds, Join: len(g.JoinFiles()),
			Leave: len(home), V2: g.V2()}
		all := killGroup(g)
		e, err = r.await(ctx, task, cmd, order, answers, g)
		all()
	}
	e.addGroupUsage(g)
	e.EnforcedBy = enforcedBy
	return e, err
}

func (r Run) await(ctx context.Context, t launch.Task, cmd *exec.Cmd, order, answers *os.File, g *cgroup.Group) (End, error) {
	task, err := json.Marshal(t)
	if err == nil {
		_, err = order.Write(append(task, '\n'))
	}
	var began, last launch.Report
	for lines := bufio.NewScanner(answers); err == nil && lines.Scan(); {
		last = launch.Report{}
		if err = json.Unmarshal(lines.Bytes(), &last); last.PID != 0 {
			began = last
		}
	}
	order.Close()
	if !last.Over {
		_ = g.Kill(0) // remaining processes would keep its output open
	}
	waited := cmd.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil && last.Failed != "":
		err = errors.New(last.Failed)
	case err == nil && !last.Over:
		err = fmt.Errorf("run %s: the launch process was killed: %v", r.Program.Path, waited)
	}
	if !last.Over && began.PID != 0 { // kill at least its session
		_ = unix.Kill(-began.PID, unix.SIGKILL)
	}
	return endOf(last), err
}

func endOf(r launch.Report) End {
	e := End{Exit: r.Exit, Killed: r.Killed, Limit: r.Limit, CPU: time.Duration(r.CPU) * time.Microsecond, Memory: r.Memory}
	if r.Signal != 0 {
		e.Exit, e.Signal = 128+r.Signal, unix.SignalName(syscall.Signal(r.Signal))
	}
	return e
}
