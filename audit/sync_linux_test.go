package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestRowIsOnTheDisk traces the system calls of a row: when Append returns, the write-ahead log is on the disk.
func TestRowIsOnTheDisk(t *testing.T) {
	const traced = "AUDIT_TEST_TRACED"
	if dir := os.Getenv(traced); dir != "" {
		l, err := Open(t.Context(), filepath.Join(dir, "audit.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, mark := range []string{"first", "begin", "end"} {
			if mark == "end" || mark == "first" {
				if _, err := l.Append(t.Context(), Entry{Kind: "test", Data: map[string]any{}}); err != nil {
					t.Error(err)
				}
			}
			os.Remove(filepath.Join(dir, mark)) // a call that is visible in the trace
		}
		return
	}
	dir := t.TempDir()
	calls := hosttest.TraceCalls(t, "fsync,fdatasync,unlink,unlinkat", traced+"="+dir)
	at := func(mark string) int {
		return slices.IndexFunc(calls, func(call string) bool {
			return strings.HasPrefix(call, "unlink") && strings.Contains(call, filepath.Join(dir, mark)+`"`)
		})
	}
	begin, end := at("begin"), at("end")
	if begin < 0 || end < begin || !slices.ContainsFunc(calls[begin:end], func(call string) bool {
		return strings.HasPrefix(call, "fdatasync(") && strings.Contains(call, "audit.db-wal>")
	}) {
		t.Errorf("a row was promised without fdatasync:\n%s", strings.Join(calls, "\n"))
	}
}
