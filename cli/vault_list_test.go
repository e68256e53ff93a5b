package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// homeWithLog creates a home with a log of these rows, and returns a function that runs a command there.
func homeWithLog(t *testing.T, entries ...audit.Entry) func(args ...string) (stdout, stderr string) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	run := func(args ...string) (string, string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := Main(append([]string{"sandboxmcp"}, args...), strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatalf("%q ended with exit code %d: %s", args, code, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
	run("vault", "add", "KEY", "first-"+"value") // creates the directory
	log, err := audit.Open(t.Context(), filepath.Join(home, "sandboxmcp", "sandboxmcp.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for len(entries) > 0 {
		n := min(len(entries), 1000)
		if _, err := log.Append(t.Context(), entries[:n]...); err != nil {
			t.Fatal(err)
		}
		entries = entries[n:]
	}
	return run
}

// leasedRows returns the rows of a run that leased secrets, in a session unless it is "".
func leasedRows(run, namespace, session string, secrets ...string) []audit.Entry {
	return []audit.Entry{
		{Kind: event.VaultAccessed, Run: run, Namespace: namespace, Data: map[string]any{"secrets": secrets}},
		{Kind: event.ExecutionCompleted, Run: run, Namespace: namespace, Data: map[string]any{"session": session, "secrets": secrets}},
	}
}

// A new value lists the sessions that still have the old one: they leased it and have not ended.
func TestHoldersOfOldValue(t *testing.T) {
	var entries []audit.Entry
	for _, id := range []string{"LIVING", "ENDED", "ANOTHER", "UNUSED"} {
		entries = append(entries, audit.Entry{Kind: event.SessionCreated, Run: id, Namespace: "default", Data: map[string]any{}})
	}
	entries = append(entries, audit.Entry{Kind: event.SessionCreated, Run: "FOREIGN", Namespace: "team", Data: map[string]any{}})
	for _, of := range [][]audit.Entry{
		leasedRows("RUN1", "default", "LIVING", "KEY", "OTHER"),
		leasedRows("RUN2", "default", "LIVING", "KEY"),
		leasedRows("RUN3", "default", "ENDED", "KEY"),
		leasedRows("RUN4", "default", "", "KEY"),
		leasedRows("RUN5", "default", "ANOTHER", "OTHER"),
		leasedRows("RUN6", "team", "FOREIGN", "KEY"),
		{{Kind: event.SessionKilled, Run: "ENDED", Namespace: "default", Data: map[string]any{}}},
	} {
		entries = append(entries, of...)
	}
	run := homeWithLog(t, entries...)
	_, stderr := run("vault", "rotate", "KEY", "second-"+"value")
	if strings.Count(stderr, "session LIVING keeps the old value") != 1 {
		t.Errorf("the living session is not told of, once: %s", stderr)
	}
	for _, id := range []string{"ENDED", "ANOTHER", "UNUSED", "FOREIGN"} {
		if strings.Contains(stderr, id) {
			t.Errorf("%s is told of: %s", id, stderr)
		}
	}
	if out, _ := run("vault", "rotate", "KEY", "third-"+"value", "--json"); !strings.Contains(out,
		`"sessions_with_the_old_value":["LIVING"]`) {
		t.Errorf("got %s", out)
	}
}

// Rotated files of the log count, too; uses in files that were moved away are unknown.
func TestLastUsedRotated(t *testing.T) {
	run := homeWithLog(t, append(leasedRows("RUN1", "default", "", "KEY"), leasedRows("RUN2", "default", "", "OTHER")...)...)
	run("audit", "rotate")
	if out, _ := run("vault", "list"); !strings.Contains(out, "just now") || strings.Contains(out, "never") {
		t.Errorf("got %s", out)
	}
	if err := os.Remove(filepath.Join(os.Getenv("HOME"), "sandboxmcp", "sandboxmcp.db")); err != nil {
		t.Fatal(err)
	}
	if out, stderr := run("vault", "list"); !strings.Contains(out, "never") || stderr != "" {
		t.Errorf("got %s, %s", out, stderr)
	}
}

// The list reads all rows in one query, however often secrets were used: a query for each would take minutes. It would
// also allocate more: one query allocates 34 objects for a row.
func TestLastUsedOfManyRows(t *testing.T) {
	const runs = 10_000
	var entries []audit.Entry
	for i := range runs {
		entries = append(entries, leasedRows(fmt.Sprint("RUN", i), "default", "", "KEY", "OTHER")...)
	}
	run := homeWithLog(t, entries...)
	for _, line := range []string{"vault list", "vault rotate KEY second-" + "value"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, _ := run(strings.Fields(line)...)
		runtime.ReadMemStats(&after)
		made := after.Mallocs - before.Mallocs
		t.Logf("%s: %d objects", line, made)
		if made > 60*runs || line == "vault list" && !strings.Contains(out, "just now") {
			t.Errorf("%s: it made %d objects for %d runs: %s", line, made, runs, out)
		}
	}
}
