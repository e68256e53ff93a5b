package pipeline

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// TestJournalIsSmall: ended runs do not make a journal grow, and a rewritten journal still lists all that is under way.
func TestJournalIsSmall(t *testing.T) {
	dir := t.TempDir()
	j := &Journal{dir: dir, open: map[string]string{}}
	j.Add(JournalSession, "open", "default")
	j.AddArtifacts("r", "default", "/a b/\n%")
	for i := range 10_000 {
		j.Add(JournalRun, fmt.Sprint("run", i), "default")
		j.RemoveRun("open") // a row about a session
		j.RemoveRun(fmt.Sprint("run", i))
	}
	j.Add(JournalRun, "last", "default")
	f, err := os.Open(j.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	want := []journalEntry{{Kind: JournalArtifacts, ID: artifactsID("r"), Namespace: "default", Dir: "/a b/\n%"},
		{Kind: JournalSession, ID: "open", Namespace: "default"}, {Kind: JournalRun, ID: "last", Namespace: "default"}}
	if err != nil || info.Size() > 2*maxJournalBytes || !slices.Equal(readUnended(f), want) {
		t.Errorf("%v, %d bytes", err, info.Size())
	}
	if g, err := os.OpenFile(j.path, os.O_RDWR, 0); err != nil || statefile.TryLock(g, false) == nil {
		t.Errorf("nobody has the journal locked: %v", err)
	}
	j.Close() // what has not ended by now could not be recorded
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %q, %v", entries, err)
	}
}
