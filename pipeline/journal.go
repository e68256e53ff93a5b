package pipeline

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// A Journal lists what a process has under way, runs, sessions and directories of artifacts, in a file of its own,
// which it keeps locked. A process that is killed leaves it: the next one that starts records the end of what it lists.
// The disk is not waited for: the two lines of a run cost 3 microseconds, and after a loss of power some of the last
// seconds may be missing.
type Journal struct {
	mu   sync.Mutex
	dir  string   // "" keeps no journal
	file *os.File // nil until something is listed
	path string
	size int               // bytes of the file, about
	open map[string]string // the lines of what it lists that has not ended, by id
}

// freshPrefix is how the name of a journal begins that is not locked yet.
const freshPrefix = ".new-"

// maxCrashes bounds the time to record what killed processes have left.
const maxCrashes = time.Minute

// maxJournalBytes is the size in bytes from which on a journal is written anew, without what has ended.
const maxJournalBytes = 64 << 10

// Kinds of rows about what killed processes have left. executionLost is that of a run; listeners are told
// execution.failed. artifactsLost names a directory of the host in which artifacts of a run are missing, and what was
// removed there.
const (
	ExecutionLost = "execution.lost"
	ArtifactsLost = "artifacts.lost"
)

// CrashReason is why something ended that was under way when its process was killed.
const CrashReason = "its server or command was killed, or lost power"

// What a journal lists. The start of a run is in the log, or it did not begin; the id of a job is known to its caller
// before that.
const (
	JournalRun     = "run"
	JournalJob     = "job"
	JournalSession = "session"
	// A directory to which the artifacts of a run are being saved; its id is that of artifactsID.
	JournalArtifacts = "artifacts"
)

// artifactsID returns the id under which the directory of a run's artifacts is listed.
func artifactsID(run string) string { return run + ".artifacts" }

// createFile makes the journal's file, or one that takes its place, with all that it lists. It needs no error: without a
// journal, an end may stay unknown, and no more.
func (j *Journal) createFile() {
	if os.MkdirAll(j.dir, 0o700) != nil {
		return
	}
	id := NewID()
	f, err := os.OpenFile(filepath.Join(j.dir, freshPrefix+id), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	text := strings.Join(slices.Sorted(maps.Values(j.open)), "")
	path := cmp.Or(j.path, filepath.Join(j.dir, id)) // where other processes look, which must find it locked
	_, err = f.WriteString(text)
	if err != nil || statefile.TryLock(f, false) != nil || os.Rename(f.Name(), path) != nil {
		f.Close()
		os.Remove(filepath.Join(j.dir, freshPrefix+id))
		return
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.path, j.size = f, path, len(text)
}

// Add lists something until endRun or endSession.
func (j *Journal) Add(kind, id, namespace string) {
	j.appendEntry(id, "+ "+kind+" "+id+" "+namespace+"\n")
}

// AddArtifacts lists a directory to which the artifacts of a run are being saved, until endArtifacts.
func (j *Journal) AddArtifacts(run, namespace, dir string) {
	j.appendEntry(artifactsID(run), "+ "+JournalArtifacts+" "+artifactsID(run)+" "+namespace+" "+url.PathEscape(dir)+"\n")
}

// RemoveArtifacts takes the directory of a run's artifacts off.
func (j *Journal) RemoveArtifacts(run string) { j.removeEntry(artifactsID(run), false) }

func (j *Journal) appendEntry(id, line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dir == "" || j.open[id] != "" {
		return
	}
	j.open[id] = line
	if j.file == nil {
		j.createFile()
		return
	}
	j.writeLine(j.open[id])
}

// RemoveRun takes a run or a job off that was listed, and nothing else: a row about a session that could not be ended has
// the session's id.
func (j *Journal) RemoveRun(id string) { j.removeEntry(id, false) }

// RemoveSession takes a session off.
func (j *Journal) RemoveSession(id string) { j.removeEntry(id, true) }

func (j *Journal) removeEntry(id string, session bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if line := j.open[id]; line != "" && strings.HasPrefix(line, "+ "+JournalSession) == session {
		delete(j.open, id)
		j.writeLine("- " + id + "\n")
	}
}

// writeLine appends a line. It keeps the file small, however long its process lives.
func (j *Journal) writeLine(line string) {
	if j.file == nil {
		return
	}
	_, _ = j.file.WriteString(line)
	if j.size += len(line); j.size > maxJournalBytes+2*len(j.open)*len(line) {
		j.createFile()
	}
}

// Close removes the journal of a process, unless ends are missing that could not be recorded.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return
	}
	if len(j.open) == 0 {
		os.Remove(j.path)
	}
	j.file.Close()
	j.file, j.dir = nil, ""
}

// journalEntry is what a journal lists.
type journalEntry struct{ Kind, ID, Namespace, Dir string }

// readUnended returns what a journal lists that has not ended.
func readUnended(f *os.File) []journalEntry {
	var all []journalEntry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch parts := strings.Fields(lines.Text()); {
		case (len(parts) == 4 || len(parts) == 5 && parts[1] == JournalArtifacts) && parts[0] == "+":
			l := journalEntry{Kind: parts[1], ID: parts[2], Namespace: parts[3]}
			if len(parts) == 5 {
				l.Dir, _ = url.PathUnescape(parts[4])
			}
			all = append(all, l)
		case len(parts) == 2 && parts[0] == "-":
			all = slices.DeleteFunc(all, func(l journalEntry) bool { return l.ID == parts[1] })
		}
	}
	return all
}

// rowReader is an audit log that can be read.
type rowReader interface {
	Rows(context.Context, audit.Filter) iter.Seq2[audit.Row, error]
}

// crashLog is an audit log that can be read and written.
type crashLog interface {
	Recorder
	rowReader
}

// RecordCrashes writes to a log the ends of what killed processes have left, which is listed in the directory of
// journals of that log, and removes the files that they had not saved yet. A journal stays until all of its ends are in
// the log, or owed to it. tell, if it is not nil, is called with each row.
func RecordCrashes(ctx context.Context, log crashLog, dir string, tell func(kind, run, namespace string, data map[string]any)) {
	ctx, cancel := context.WithTimeout(ctx, maxCrashes)
	defer cancel()
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), freshPrefix) {
			removeAbandonedJournal(dir, e)
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if statefile.TryLock(f, false) == nil && hasItsName(f) && recordUnended(ctx, log, readUnended(f), tell) == nil { // else its process lives
			os.Remove(f.Name())
		}
		f.Close()
	}
}

// hasItsName reports whether f still has its name: a process that lives may have put another file in its place.
func hasItsName(f *os.File) bool {
	opened, err := f.Stat()
	there, err2 := os.Stat(f.Name())
	return err == nil && err2 == nil && os.SameFile(opened, there)
}

// removeAbandonedJournal removes a journal that its process was killed over making.
func removeAbandonedJournal(dir string, e os.DirEntry) {
	if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > statefile.AbandonedAge {
		os.Remove(filepath.Join(dir, e.Name()))
	}
}

func recordUnended(ctx context.Context, log crashLog, all []journalEntry, tell func(kind, run, namespace string, data map[string]any)) error {
	for _, l := range all {
		run, kind, data, err := l.endRow(ctx, log)
		if err != nil {
			return err
		}
		if kind == "" {
			continue
		}
		// The disk that was full when the process was killed may be full yet, and this one may live for long.
		_, err = log.Append(ctx, audit.Entry{Kind: kind, Run: run, Namespace: l.Namespace, Data: data, Late: true})
		if err != nil && !errors.As(err, new(*audit.Owed)) {
			return err
		}
		if tell != nil {
			tell(kind, run, l.Namespace, data)
		}
	}
	return nil
}

// endRow returns the row of the end of what an entry lists; kind "" says that it needs none.
func (l journalEntry) endRow(ctx context.Context, log rowReader) (run, kind string, data Facts, err error) {
	if l.Kind == JournalArtifacts {
		run = strings.TrimSuffix(l.ID, artifactsID(""))
		data, err = removeUnsaved(ctx, l.Dir, run)
		return run, ArtifactsLost, data, err
	}
	past, data, err := readPast(ctx, log, l.Namespace, l.ID)
	if err != nil || past.Ended != "" || l.Kind == JournalRun && past.Began.IsZero() {
		return l.ID, "", nil, err
	}
	kind, why := ExecutionLost, Facts{"ended": "lost", "stage": StageBackend, "reason": CrashReason}
	if l.Kind == JournalSession {
		kind, data, why = event.SessionKilled, Facts{}, Facts{"why": "crash"}
	}
	maps.Copy(data, why)
	return l.ID, kind, data, nil
}

// removeUnsaved removes from a directory of the host what a killed process had not saved there, and returns what the
// row about that says. What it had saved, its receipt vouches for, and no list of sums says that this is all.
func removeUnsaved(ctx context.Context, dir, run string) (Facts, error) {
	removed, err := hostfs.RemoveStaged(ctx, dir, run)
	if ctx.Err() != nil {
		return nil, err
	}
	data := Facts{"directory": dir, "removed": removed, "reason": CrashReason}
	if err != nil {
		data["error"] = safetext.Clip(err.Error(), MaxReason)
	}
	return data, nil
}

// Past is what the log has of a run or a session that this server does not know any more.
type Past struct {
	ID, Namespace string
	Session       bool // it is one
	Began         time.Time
	Ended         string // how, as in a result or in session.Info; "" is unknown
	Reason        string
}

// FindPast returns what the log has of a run or a session of a namespace, as far as its rows are here.
func (p *Pipeline) FindPast(ctx context.Context, namespace, id string) (Past, bool) {
	log, can := p.Config.Audit.(rowReader)
	if !can {
		return Past{}, false
	}
	past, _, err := readPast(ctx, log, NamespaceOrDefault(namespace), id)
	return past, err == nil && (!past.Began.IsZero() || past.Ended != "")
}

// readPast returns also what the row of its start says.
func readPast(ctx context.Context, log rowReader, namespace, id string) (past Past, start Facts, err error) {
	past, start = Past{ID: id, Namespace: namespace}, Facts{}
	if id == "" {
		return past, start, nil
	}
	for row, err := range log.Rows(ctx, audit.Filter{Namespace: namespace, Run: id}) {
		if err != nil {
			return past, start, err
		}
		var end struct{ Ended, Why, Reason string }
		_ = json.Unmarshal(row.Data, &end) // the log holds only what we wrote
		switch row.Kind {
		case event.ExecutionStarted, event.SessionCreated:
			past.Began, past.Session = row.Time, row.Kind == event.SessionCreated
			_ = json.Unmarshal(row.Data, &start)
		case event.SessionKilled:
			past.Ended = end.Why
		case event.ExecutionCompleted, event.ExecutionFailed, event.ExecutionTimeout, ExecutionRefused, ExecutionLost:
			if past.Session { // a session could not be ended, say
				continue
			}
			past.Ended, past.Reason = cmp.Or(end.Ended, strings.TrimPrefix(row.Kind, "execution.")), end.Reason
		}
	}
	return past, start, nil
}

// String says in words what became of it.
func (p Past) String() string {
	switch {
	case p.Ended == "":
		return fmt.Sprintf("began %s, and its end is not recorded", p.Began.UTC().Format(time.RFC3339))
	case p.Reason != "":
		return p.Ended + ": " + p.Reason
	}
	return p.Ended
}
