package container

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestIsNamespaceInit checks the first and the second process of a PID namespace, and this process.
func TestIsNamespaceInit(t *testing.T) {
	c := exec.Command("sh", "-c", "sleep 60 & echo begun; wait")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		hosttest.SkipMissing(t, "PID namespace", err.Error())
	}
	defer c.Wait()
	defer c.Process.Kill()
	bufio.NewReader(out).ReadString('\n')
	one := c.Process.Pid
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", one))
	two, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		hosttest.SkipMissing(t, "children in /proc", err.Error())
	}
	for pid, want := range map[int]bool{one: true, two: false, os.Getpid(): true} {
		if got := isNamespaceInit(pid); got != want {
			t.Errorf("process %d: got %v, want %v", pid, got, want)
		}
	}
}
