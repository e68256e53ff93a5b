//go:build !linux

package backendtest

import (
	"errors"
	osexec "os/exec"
	"testing"
)

func canaryProcess(t testing.TB, _ string) *osexec.Cmd {
	t.Skip("canaries on the host need Linux")
	return nil
}

func running(*osexec.Cmd) bool { return true }

func sharedObjects(t testing.TB, _ string) map[string]any {
	t.Skip("canaries on the host need Linux")
	return nil
}

func sendRoot(int) error { return errors.ErrUnsupported }

func mounter(t testing.TB) func(kind, at string, readOnly bool) {
	t.Skip("mounts of the host need Linux")
	return nil
}

func showMounts(testing.TB, string, int) {}
