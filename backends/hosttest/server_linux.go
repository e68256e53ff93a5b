package hosttest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Role returns a command that runs this test binary in a role, which its TestMain reads from SANDBOXMCP_TEST_ROLE.
func Role(t *testing.T, name string, before ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(before, exe)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "SANDBOXMCP_TEST_ROLE="+name, "SANDBOXMCP_TEST_STATE="+t.TempDir())
	return cmd
}

// StartServer starts a server, and returns when the server reports that it is ready.
func StartServer(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("server: %q %v", line, err)
	}
}

// KillServer kills a server and waits until its descendants have ended.
func KillServer(t *testing.T, cmd *exec.Cmd, descendants map[int]string) {
	t.Helper()
	cmd.Process.Kill()
	cmd.Wait()
	Until(t, "no process of the killed server is alive", func() bool { return len(FilterLiving(descendants)) == 0 })
}

// Descendants lists the living descendants of a process with their start times, since process ids are reused.
func Descendants(pid int) map[int]string {
	below, found := map[int]string{}, true
	for found {
		found = false
		names, _ := filepath.Glob("/proc/[1-9]*")
		for _, name := range names {
			var n, parent int
			fmt.Sscan(filepath.Base(name), &n)
			fields := stat(n)
			if fields == nil || below[n] != "" {
				continue
			}
			if fmt.Sscan(fields[1], &parent); parent == pid || below[parent] != "" {
				below[n], found = fields[19], true
			}
		}
	}
	return below
}

// FilterLiving returns the processes of all that are still alive.
func FilterLiving(all map[int]string) map[int]string {
	left := map[int]string{}
	for pid, start := range all {
		if fields := stat(pid); fields != nil && fields[19] == start {
			left[pid] = start
		}
	}
	return left
}

// HasEnded reports whether a process has ended.
func HasEnded(pid int) bool { return stat(pid) == nil }

// stat returns the fields of /proc/pid/stat from the third on; nil if the process has ended.
func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, found := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); found && len(fields) > 20 && fields[0] != "Z" {
		return fields
	}
	return nil
}
