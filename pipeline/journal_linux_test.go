package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// TestCrash: what a killed server had under way has an end in the log once the next one has started, and what had one keeps it; a server that
// lives is not taken for a killed one.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	first, log, _ := newReal(t, func(c *Config) { c.Journal = dir })
	info := open(t, first, NewSession{Language: "shell"})
	running, _ := first.Begin(t.Context(), Request{Language: "shell", Code: []byte("sleep 1000")})
	ended, done := first.Begin(t.Context(), Request{Language: "shell", Code: []byte("echo done")})
	<-done
	hosttest.Until(t, "the run has begun", func() bool {
		past, known := first.Past(t.Context(), "", running)
		return known && !past.Began.IsZero()
	})
	second := New(Config{Backends: first.cfg.Backends, Audit: log, Journal: dir})
	defer second.Close()
	for _, id := range []string{running, info.ID} {
		if past, known := second.Past(t.Context(), "", id); !known || past.Ended != "" {
			t.Errorf("while its server lives: %+v", past)
		}
	}
	// A copy of the journal stands for that of a server that was killed at this moment: nobody holds its lock.
	text, err := os.ReadFile(first.journal.path)
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(dir, "killed")
	if err := os.WriteFile(filepath.Join(dir, fresh+"killed"), append(text, "+ run half"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, fresh+"killed"), killed); err != nil { // whole at once: the second may still be looking
		t.Fatal(err)
	}
	third := New(Config{Backends: first.cfg.Backends, Audit: log, Journal: dir})
	hosttest.Until(t, "the journal is read", func() bool { _, err := os.Stat(killed); return os.IsNotExist(err) })
	for id, want := range map[string]string{running: "cancelled: " + crashed, info.ID: "crash", ended: "ok"} {
		if past, known := third.Past(t.Context(), "", id); !known || past.String() != want || past.Session != (id == info.ID) {
			t.Errorf("%s: got %q, want %q", id, past, want)
		}
		if _, known := third.Past(t.Context(), "other", id); known {
			t.Errorf("%s is known in another namespace", id)
		}
	}
	third.Close()
	if n := rowCounters(t, log)[event.ExecutionFailed]; n != 1 {
		t.Errorf("%d rows of failures", n)
	}
	first.Close()
	left, _ := os.ReadDir(dir)
	if names := filesOf(left); len(left) != 1 || names != filepath.Base(second.journal.path) {
		t.Errorf("the directory has %q", names)
	}
}

func filesOf(list []os.DirEntry) string {
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestServerEnds: what a server has under way when it ends has a row with the reason.
func TestServerEnds(t *testing.T) {
	p, log, _ := newReal(t, func(c *Config) { c.Journal = t.TempDir() })
	info := open(t, p, NewSession{Language: "shell"})
	id, _ := p.Begin(t.Context(), Request{Language: "shell", Code: []byte("sleep 1000")})
	hosttest.Until(t, "the run has begun", func() bool {
		past, known := p.Past(t.Context(), "", id)
		return known && !past.Began.IsZero()
	})
	other := open(t, p, NewSession{Language: "shell"})
	if _, err := p.Do(t.Context(), EndSession{other.Namespace, other.ID}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(p.journal.path); err != nil || !strings.Contains(string(text), info.ID) || !strings.Contains(string(text), "- "+other.ID) {
		t.Errorf("the journal has %q, %v", text, err)
	}
	name := p.journal.path
	if _, err := p.Do(t.Context(), EndSession{info.Namespace, info.ID}); err != nil {
		t.Fatal(err)
	}
	p.journal.end(id)
	if text, err := os.ReadFile(name); err != nil || len(text) > 0 {
		t.Errorf("all has ended, and the journal has %q, %v", text, err)
	}
	info = open(t, p, NewSession{Language: "shell"})
	p.Close()
	again := New(Config{Backends: p.cfg.Backends, Audit: log})
	defer again.Close()
	if past, _ := again.Past(t.Context(), "", info.ID); past.String() != "server" {
		t.Errorf("the session: %q", past)
	}
	if past, _ := again.Past(t.Context(), "", id); past.Ended == "" || past.Ended == "ok" {
		t.Errorf("the run: %q", past)
	}
	for row, err := range log.Rows(t.Context(), audit.Filter{Run: id}) {
		if err != nil || row.Namespace != "default" {
			t.Error(row, err)
		}
	}
}
