package warm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// awaitIdle returns when the interpreter waits.
func (s *sandbox) awaitIdle(ctx context.Context, k *idleProcess) error {
	var err error
	if k.host, err = s.HostPID(); err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(k.host, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	k.process = os.NewFile(uintptr(fd), "process")
	if again, err := s.HostPID(); err != nil || again != k.host {
		return errors.New("it ended")
	}
	if k.key.language == "python" {
		if err := awaitHello(ctx, k.channel); err != nil {
			return err
		}
	}
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		waits, err := k.isWaiting()
		if err != nil {
			return err
		}
		if waits {
			return nil
		}
		select {
		case <-time.After(pause):
			if s.HasEnded(k.pid()) {
				return errors.New("it ended")
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitHello reads the byte that Python sends just before it waits.
func awaitHello(ctx context.Context, channel io.ReadWriteCloser) error {
	stop := context.AfterFunc(ctx, func() { channel.Close() })
	_, err := io.ReadFull(channel, make([]byte, 1))
	if !stop() {
		return ctx.Err()
	}
	return err
}

// isWaiting reports whether the interpreter's main thread is in the expected system call, by proc_pid_syscall(5):
// Python reads descriptor 3, bash reads the descriptor that it opened by that name, Node opens the FIFO.
func (k *idleProcess) isWaiting() (bool, error) {
	text, err := procfs.Read("/proc/" + strconv.Itoa(k.host) + "/syscall")
	if err != nil {
		return false, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 3 || fields[0] != strconv.FormatUint(k.currentCall(), 10) {
		return false, nil
	}
	if k.fifo == "" {
		python := k.key.language == "python"
		return fields[1] == "0x3" && python || fields[1] == "0x4" && !python, nil
	}
	at, err := strconv.ParseUint(fields[2], 0, 64)
	if err != nil {
		return false, nil
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", k.host))
	if err != nil {
		return false, err
	}
	defer memory.Close()
	want := path.Join(backends.Workspace, k.fifo) + "\x00"
	got := make([]byte, len(want))
	if _, err := memory.ReadAt(got, int64(at)); err != nil {
		return false, nil // it has continued since
	}
	return string(got) == want, nil
}

// isDoomed reports whether the process has ended or is about to: a fatal signal is pending, or has been received,
// so that it no longer sleeps.
func (k *idleProcess) isDoomed() bool {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/status", k.host))
	pending, _ := strconv.ParseUint(procfs.StatusField(text, "SigPnd"), 16, 64)
	return err != nil || !strings.HasPrefix(procfs.StatusField(text, "State"), "S") || pending&(1<<(unix.SIGKILL-1)) != 0 ||
		procfs.HasEnded(k.process)
}

// currentCall returns the system call in which the process waits.
func (k *idleProcess) currentCall() uint64 {
	if k.fifo != "" {
		return unix.SYS_OPENAT
	}
	return unix.SYS_READ
}

// resume makes Node open its package.json again: every stop interrupts open(2), which then restarts.
func (k *idleProcess) resume() error {
	return errors.Join(
		unix.PidfdSendSignal(int(k.process.Fd()), unix.SIGSTOP, nil, 0),
		unix.PidfdSendSignal(int(k.process.Fd()), unix.SIGCONT, nil, 0),
	)
}
