package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TraceCalls runs the calling test once more by itself, with additional environment variables, and returns its
// system calls of these names in their order, as strace prints them, with the paths of descriptors:
// "fsync(3</path>) = 0".
func TraceCalls(t testing.TB, calls string, env ...string) []string {
	t.Helper()
	strace := Program(t, "strace")
	if out, err := exec.Command(strace, "-f", "true").CombinedOutput(); err != nil {
		SkipMissing(t, "strace", "strace can't trace here: "+err.Error()+": "+string(out))
	}
	log := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(strace, "-f", "-y", "-s", "4096", "-o", log, "-e", "trace="+calls, os.Args[0],
		"-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the traced test: %v: %s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if _, call, ok := strings.Cut(strings.TrimSpace(line), " "); ok { // after the thread id
			all = append(all, strings.TrimSpace(call))
		}
	}
	return all
}
