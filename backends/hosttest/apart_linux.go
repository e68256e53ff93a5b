package hosttest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// RunApart runs the test once more in a process with mounts of its own, which end with it even if this process is
// killed. In that process it returns true.
func RunApart(t *testing.T) bool {
	t.Helper()
	const variable = "SANDBOXMCP_TEST_APART"
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		SkipMissing(t, "mount namespace", err.Error())
	}
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	return false
}
