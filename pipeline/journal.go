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

// A Journal lists the running effects of a process (runs, sessions and artifact directories) in a file of its own,
// which it keeps locked. A killed process leaves the file, and the next process that starts records the end of the
// listed effects. The file is not synced: the two lines of a run cost 3 microseconds, and a power loss may lose the
// last seconds.
type Journal struct {
	mu   sync.Mutex
	dir  string   // "" keeps no journal
	file *os.File // nil until the first entry
	path string
	size int               // approximate bytes of the file
	open map[string]string // lines of the unended entries, by id
}

// freshPrefix begins the name of a journal that is not locked yet.
const freshPrefix = ".new-"

// maxCrashes bounds the time to record the effects of killed processes.
const maxCrashes = time.Minute

// maxJournalBytes is the size in bytes at which a journal is rewritten without ended entries.
const maxJournalBytes = 64 << 10

// Kinds of rows about effects of killed processes. executionLost is about a run; listeners get execution.failed
// instead. artifactsLost names a directory of the host that lacks artifacts of a run, and the files removed there.
const (
	ExecutionLost = "execution.lost"
	ArtifactsLost = "artifacts.lost"
)

// CrashReason is the reason of an effect that was running when its process was killed.
const CrashReason = "its server or command was killed, or lost power"

// Kinds of journal entries. The start of a run is in the log, or the run did not begin; the caller of a job knows its
// id before that.
const (
	JournalRun     = "run"
	JournalJob     = "job"
	JournalSession = "session"
	// A directory that receives the artifacts of a run; its id is artifactsID.
	JournalArtifacts = "artifacts"
)

// artifactsID returns the journal id of a run's artifact directory.
func artifactsID(run string) string { return run + ".artifacts" }

// createFile creates the journal's file, or replaces it, with all unended entries. It returns no error: without a
// journal, an end may stay unknown, nothing worse.
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
	path := cmp.Or(j.path, filepath.Join(j.dir, id)) // other processes look here, and must find it locked
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

// Add adds an entry, until RemoveRun or RemoveSession.
func (j *Journal) Add(kind, id, namespace string) {
	j.appendEntry(id, "+ "+kind+" "+id+" "+namespace+"\n")
}

// AddArtifacts adds a directory that receives the artifacts of a run, until RemoveArtifacts.
func (j *Journal) AddArtifacts(run, namespace, dir string) {
	j.appendEntry(artifactsID(run), "+ "+JournalArtifacts+" "+artifactsID(run)+" "+namespace+" "+url.PathEscape(dir)+"\n")
}

// RemoveArtifacts removes the entry of a run's artifact directory.
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

// RemoveRun removes the entry of a run or a job. It ignores sessions: a row about a session that could not be ended
// has the session's id.
func (j *Journal) RemoveRun(id string) { j.removeEntry(id, false) }

// RemoveSession removes the entry of a session.
func (j *Journal) RemoveSession(id string) { j.removeEntry(id, true) }

func (j *Journal) removeEntry(id string, session bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if line := j.open[id]; line != "" && strings.HasPrefix(line, "+ "+JournalSession) == session {
		delete(j.open, id)
		j.writeLine("- " + id + "\n")
	}
}

// writeLine appends a line, and rewrites a file that has grown too large.
func (j *Journal) writeLine(line string) {
	if j.file == nil {
		return
	}
	_, _ = j.file.WriteString(line)
	if j.size += len(line); j.size > maxJournalBytes+2*len(j.open)*len(line) {
		j.createFile()
	}
}

// Close removes the journal's file, unless ends could not be recorded.
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

// journalEntry is an entry of a journal.
type journalEntry struct{ Kind, ID, Namespace, Dir string }

// readUnended returns the entries of a journal that have not ended.
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

// RecordCrashes records the ends of effects that killed processes left in the journal directory of a log, and removes
// their unsaved files. A journal stays until the log has all of its ends, or owes them. notify, if not nil, is called
// with each row.
func RecordCrashes(ctx context.Context, log crashLog, dir string, notify func(kind, run, namespace string, data map[string]any)) {
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
		// a live process holds the lock
		if statefile.TryLock(f, false) == nil && hasItsName(f) && recordUnended(ctx, log, readUnended(f), notify) == nil {
			os.Remove(f.Name())
		}
		f.Close()
	}
}

// hasItsName reports whether f still has its name: a live process may have replaced the file.
func hasItsName(f *os.File) bool {
	opened, err := f.Stat()
	there, err2 := os.Stat(f.Name())
	return err == nil && err2 == nil && os.SameFile(opened, there)
}

// removeAbandonedJournal removes an unlocked journal whose process was killed while it created the file.
func removeAbandonedJournal(dir string, e os.DirEntry) {
	if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > statefile.AbandonedAge {
		os.Remove(filepath.Join(dir, e.Name()))
	}
}

func recordUnended(ctx context.Context, log crashLog, all []journalEntry,
	notify func(kind, run, namespace string, data map[string]any)) error {
	for _, l := range all {
		run, kind, data, err := l.endRow(ctx, log)
		if err != nil {
			return err
		}
		if kind == "" {
			continue
		}
		// The disk may still be full, as when the process was killed, so the log may write this entry later.
		_, err = log.Append(ctx, audit.Entry{Kind: kind, Run: run, Namespace: l.Namespace, Data: data, Late: true})
		if err != nil && !errors.As(err, new(*audit.Owed)) {
			return err
		}
		if notify != nil {
			notify(kind, run, l.Namespace, data)
		}
	}
	return nil
}

// endRow returns the row about the end of an entry; kind "" means that it needs none.
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

// removeUnsaved removes the unsaved files of a killed process from an artifact directory, and returns the facts of a
// row about that. The receipt covers the saved files; no list of sums claims that these are all.
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

// Past is a run or a session that only the log knows.
type Past struct {
	ID, Namespace string
	Session       bool // it is a session, not a run
	Began         time.Time
	Ended         string // as in a result or in session.Info; "" is unknown
	Reason        string
}

// FindPast finds a run or a session of a namespace in the rows of the log that are here.
func (p *Pipeline) FindPast(ctx context.Context, namespace, id string) (Past, bool) {
	log, can := p.Config.Audit.(rowReader)
	if !can {
		return Past{}, false
	}
	past, _, err := readPast(ctx, log, NamespaceOrDefault(namespace), id)
	return past, err == nil && (!past.Began.IsZero() || past.Ended != "")
}

// readPast finds a run or a session in the log; start is the data of its first row.
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
			if past.Session { // for example a session that could not be ended
				continue
			}
			past.Ended, past.Reason = cmp.Or(end.Ended, strings.TrimPrefix(row.Kind, "execution.")), end.Reason
		}
	}
	return past, start, nil
}

// String describes how the run or session ended.
func (p Past) String() string {
	switch {
	case p.Ended == "":
		return fmt.Sprintf("began %s, its end is not recorded", p.Began.UTC().Format(time.RFC3339))
	case p.Reason != "":
		return p.Ended + ": " + p.Reason
	}
	return p.Ended
}
