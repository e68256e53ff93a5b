package run_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestCrash: each effect that a killed server had under way has an end in the log once the next server has started, and
// an effect that had an end keeps it; a living server is not treated as a killed one.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	first, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Journal = dir })
	info := pipelinetest.Open(t, first, session.New{Language: "shell"})
	running, _ := run.StartJob(t.Context(), first, run.Request{Language: "shell", Name: "slow.sh", Code: []byte("sleep 1000")})
	foreground := pipeline.NewID()
	waits, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		pipeline.Do(waits, first, run.Request{ID: foreground, Language: "shell", Name: "slow.sh", Code: []byte("sleep 1000")})
	}()
	ended, done := run.StartJob(t.Context(), first, run.Request{Language: "shell", Code: []byte("echo done")})
	<-done
	for _, id := range []string{running, foreground} {
		hosttest.Until(t, "the run has begun", func() bool {
			past, known := first.FindPast(t.Context(), "", id)
			return known && !past.Began.IsZero()
		})
	}
	second := pipeline.New(pipeline.Config{Backends: first.Config.Backends, Audit: log, Journal: dir})
	defer second.Close()
	for _, id := range []string{running, foreground, info.ID} {
		if past, known := second.FindPast(t.Context(), "", id); !known || past.Ended != "" {
			t.Errorf("while its server lives: %+v", past)
		}
	}
	// A copy of the journal stands for that of a server that was killed at this moment: nobody holds its lock.
	text, err := readJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(dir, "killed")
	if err := os.WriteFile(filepath.Join(dir, ".new-killed"), append(text, "+ run "+pipeline.NewID()+" default\n+ run half"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, ".new-killed"), killed); err != nil { // whole at once: the second may still be looking
		t.Fatal(err)
	}
	third := pipeline.New(pipeline.Config{Backends: first.Config.Backends, Audit: log, Journal: dir})
	hosttest.Until(t, "the journal is read", func() bool { _, err := os.Stat(killed); return os.IsNotExist(err) })
	for id, want := range map[string]string{running: "lost: " + pipeline.CrashReason, foreground: "lost: " + pipeline.CrashReason, info.ID: "crash", ended: "ok"} {
		if past, known := third.FindPast(t.Context(), "", id); !known || past.String() != want || past.Session != (id == info.ID) {
			t.Errorf("%s: got %q, want %q", id, past, want)
		}
		if _, known := third.FindPast(t.Context(), "other", id); known {
			t.Errorf("%s is known in another namespace", id)
		}
	}
	third.Close()
	for row, err := range log.Rows(t.Context(), audit.Filter{Kinds: []string{pipeline.ExecutionLost}}) {
		if err != nil || !strings.Contains(string(row.Data), `"language":"shell"`) || !strings.Contains(string(row.Data), `"name":"slow.sh"`) {
			t.Errorf("the row of a run that was lost does not say which: %s, %v", row.Data, err)
		}
	}
	if n := pipelinetest.RowCounters(t, log)[pipeline.ExecutionLost]; n != 2 {
		t.Errorf("%d rows of runs that were lost", n)
	}
	leave()
	<-left
	first.Close()
	entries, _ := os.ReadDir(dir)
	if names := filesOf(entries); len(entries) != 0 { // the second has nothing to list
		t.Errorf("the directory has %q", names)
	}
}

// TestCrashOnAFullDisk: while the log can't be written, the ends of effects of a killed server stay due.
func TestCrashOnAFullDisk(t *testing.T) {
	dir, id := t.TempDir(), pipeline.NewID()
	_, log, _ := pipelinetest.NewReal(t, nil)
	start := audit.Entry{Kind: event.ExecutionStarted, Run: id, Namespace: "default", Data: pipeline.Facts{"name": "slow.sh"}}
	if _, err := log.Append(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(dir, "killed")
	if err := os.WriteFile(killed, []byte("+ run "+id+" default\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var owed []audit.Entry
	log.Fail = func(entries []audit.Entry) error {
		if entries[0].Late {
			owed = append(owed, entries...)
			return new(audit.Owed)
		}
		return audit.NotWritten(os.ErrInvalid)
	}
	pipeline.New(pipeline.Config{Audit: log, Journal: dir}).Close() // which waits for the search
	if len(owed) != 1 || owed[0].Kind != pipeline.ExecutionLost || owed[0].Run != id {
		t.Errorf("owed are %+v", owed)
	}
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("the journal is there, and its ends would be recorded once more: %v", err)
	}
}

// TestCrashWhileSaving: the artifacts that a killed process had not saved yet are removed, and a row names their
// directory.
func TestCrashWhileSaving(t *testing.T) {
	dir, id := t.TempDir(), pipeline.NewID()
	_, log, _ := pipelinetest.NewReal(t, nil)
	out := project(t, map[string]string{".sandboxmcp-" + id + "-0": "x", "sub/.sandboxmcp-" + id + "-1": "x", "mine": "x", ".sandboxmcp-" + pipeline.NewID() + "-0": "another's"})
	text := "+ run " + id + " default\n+ artifacts " + id + ".artifacts default " + url.PathEscape(out) + "\n- " + id + "\n"
	if err := os.WriteFile(filepath.Join(dir, "killed"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pipeline.New(pipeline.Config{Audit: log, Journal: dir}).Close() // which waits for the search
	left, _ := filepath.Glob(filepath.Join(out, "*/.sandboxmcp-*"))
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 3 || len(left) > 0 {
		t.Errorf("left are %s and %q, %v", filesOf(entries), left, err)
	}
	rows := 0
	for row, err := range log.Rows(t.Context(), audit.Filter{Run: id}) {
		if rows++; err != nil || row.Kind != pipeline.ArtifactsLost || !strings.Contains(string(row.Data), `"removed":2`) || !strings.Contains(string(row.Data), out) {
			t.Errorf("%s %s, %v", row.Kind, row.Data, err)
		}
	}
	if rows != 1 {
		t.Errorf("got %d rows", rows)
	}
}

// TestArtifactsAfterTheirRow: until the end of a run is in the log, which vouches for its artifacts, none of them has
// its name, and those of an earlier run are as they were; then all have, with the receipt.
func TestArtifactsAfterTheirRow(t *testing.T) {
	dir := t.TempDir()
	r, _ := signing(t, func(c *pipeline.Config) { c.Journal = dir })
	out := project(t, map[string]string{"a": "earlier", "SHA256SUMS": "earlier", "receipt.intoto.json": "earlier"})
	r.Log.Fail = func(entries []audit.Entry) error {
		if !slices.ContainsFunc(entries, func(e audit.Entry) bool { return pipeline.IsEndRow(e.Kind) }) {
			return nil
		}
		entriesThere, _ := os.ReadDir(out)
		names := strings.Fields(filesOf(entriesThere))
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".sandboxmcp-") })
		if text, err := os.ReadFile(filepath.Join(out, "a")); string(text) != "earlier" || err != nil || strings.Join(names, " ") != "SHA256SUMS a d receipt.intoto.json" { // directories are made
			t.Errorf("before the row of the end: a is %q, %v, and there are %q", text, err, names)
		}
		if text, err := readJournal(dir); err != nil || !strings.Contains(string(text), url.PathEscape(out)) {
			t.Errorf("the journal does not list the directory: %s, %v", text, err)
		}
		return nil
	}
	if _, err := r.Shell("echo -n now > a; mkdir d; echo -n now > d/b", func(q *run.Request) { q.Artifacts = out }); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(out)
	a, _ := os.ReadFile(filepath.Join(out, "a"))
	receipt, _ := os.ReadFile(filepath.Join(out, "receipt.intoto.json"))
	if filesOf(entries) != "SHA256SUMS a d receipt.intoto.json" || string(a) != "now" || string(receipt) == "earlier" {
		t.Errorf("there are %s; a is %q", filesOf(entries), a)
	}
	r.Close()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("journals are left: %s, %v", filesOf(entries), err)
	}
}

// readJournal returns the only journal in a directory that is not being created.
func readJournal(dir string) ([]byte, error) {
	paths, _ := filepath.Glob(filepath.Join(dir, "[^.]*"))
	return os.ReadFile(strings.Join(paths, " "))
}

func filesOf(list []os.DirEntry) string {
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestServerEnds: effects that a server has under way when it shuts down have a row with the reason.
func TestServerEnds(t *testing.T) {
	dir := t.TempDir()
	p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Journal = dir })
	info := pipelinetest.Open(t, p, session.New{Language: "shell"})
	id, _ := run.StartJob(t.Context(), p, run.Request{Language: "shell", Code: []byte("sleep 1000")})
	hosttest.Until(t, "the run has begun", func() bool {
		past, known := p.FindPast(t.Context(), "", id)
		return known && !past.Began.IsZero()
	})
	other := pipelinetest.Open(t, p, session.New{Language: "shell"})
	if _, _, err := pipeline.Do(t.Context(), p, session.End{Namespace: other.Namespace, Session: other.ID}); err != nil {
		t.Fatal(err)
	}
	if text, err := readJournal(dir); err != nil || !strings.Contains(string(text), info.ID) || !strings.Contains(string(text), "- "+other.ID) {
		t.Errorf("the journal has %q, %v", text, err)
	}
	info = pipelinetest.Open(t, p, session.New{Language: "shell"})
	p.Close()
	again := pipeline.New(pipeline.Config{Backends: p.Config.Backends, Audit: log})
	defer again.Close()
	if past, _ := again.FindPast(t.Context(), "", info.ID); past.String() != "server" {
		t.Errorf("the session: %q", past)
	}
	if past, _ := again.FindPast(t.Context(), "", id); past.Ended == "" || past.Ended == "ok" {
		t.Errorf("the run: %q", past)
	}
	for row, err := range log.Rows(t.Context(), audit.Filter{Run: id}) {
		if err != nil || row.Namespace != "default" {
			t.Error(row, err)
		}
	}
}
