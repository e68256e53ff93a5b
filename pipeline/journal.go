package pipeline

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// A journal lists what a server has under way that outlives the requests for it, background runs and sessions, in a file of its own, which it keeps
// locked. A server that is killed leaves it: the next one that starts records the end of what it lists.
type journal struct {
	mu   sync.Mutex
	file *os.File // nil is none
	path string
	open map[string]bool // what it lists that has not ended, by id
}

// fresh is how the name of a journal begins that is not locked yet.
const fresh = ".new-"

// maxCrashes bounds the time to record what killed servers have left.
const maxCrashes = time.Minute

// crashed is why something ended that was under way when its server was killed.
const crashed = "its server was killed, or lost power"

// openJournal opens a journal in a directory. It needs no error: without one, nothing is worse than that an end stays unknown.
func openJournal(dir string) *journal {
	j := &journal{open: map[string]bool{}}
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return j
	}
	id := NewID()
	f, err := os.OpenFile(filepath.Join(dir, fresh+id), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return j
	}
	path := filepath.Join(dir, id) // where another server looks, which must find it locked
	if statefile.TryLock(f, false) != nil || os.Rename(f.Name(), path) != nil {
		f.Close()
		os.Remove(f.Name())
		return j
	}
	j.file, j.path = f, path
	return j
}

// begin lists something until end. kind is "run" or "session".
func (j *journal) begin(kind, id, namespace string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[id] = true
	j.write("+ " + kind + " " + id + " " + namespace)
}

// end takes what was listed off. A journal of which all has ended is emptied, so that it stays small however long its server lives.
func (j *journal) end(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.open[id] {
		return
	}
	if delete(j.open, id); len(j.open) == 0 && j.file != nil {
		_ = j.file.Truncate(0)
		return
	}
	j.write("- " + id)
}

func (j *journal) write(line string) {
	if j.file != nil {
		_, _ = j.file.WriteString(line + "\n")
	}
}

// close removes the journal of a server whose ends are all recorded.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		os.Remove(j.path)
		j.file.Close()
		j.file = nil
	}
}

// journalEntry is what a journal lists.
type journalEntry struct{ kind, id, namespace string }

// left returns what a journal lists that has not ended.
func left(f *os.File) []journalEntry {
	var all []journalEntry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch parts := strings.Fields(lines.Text()); {
		case len(parts) == 4 && parts[0] == "+":
			all = append(all, journalEntry{parts[1], parts[2], parts[3]})
		case len(parts) == 2 && parts[0] == "-":
			all = slices.DeleteFunc(all, func(l journalEntry) bool { return l.id == parts[1] })
		}
	}
	return all
}

// pastRows is an audit log that can be read.
type pastRows interface {
	Rows(context.Context, audit.Filter) iter.Seq2[audit.Row, error]
}

// recordCrashes records the ends of what killed servers have left. A journal stays until all of its ends are in the log.
func (p *Pipeline) recordCrashes(ctx context.Context, dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), fresh) {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if statefile.TryLock(f, false) == nil && p.recordLeft(ctx, left(f)) == nil { // else its server lives
			os.Remove(f.Name())
		}
		f.Close()
	}
}

func (p *Pipeline) recordLeft(ctx context.Context, all []journalEntry) error {
	for _, l := range all {
		if past, known := p.past(ctx, l.namespace, l.id); known && past.Ended != "" {
			continue
		}
		kind, data := event.ExecutionFailed, facts{"ended": backends.EndedCancelled, "stage": StageBackend, "reason": crashed}
		if l.kind == "session" {
			kind, data = event.SessionKilled, facts{"why": "crash"}
		}
		if err := p.record(ctx, kind, l.id, l.namespace, data); err != nil {
			return err
		}
	}
	return nil
}

// Past is what the log has of a run or a session that this server does not know any more.
type Past struct {
	ID, Namespace string
	Session       bool // it is one
	Began         time.Time
	Ended         string // how, as in a result or in session.Info; "" is unknown
	Reason        string
}

// Past returns what the log has of a run or a session of a namespace, as long as its rows are not sealed.
func (p *Pipeline) Past(ctx context.Context, namespace, id string) (Past, bool) {
	return p.past(ctx, orDefault(namespace), id)
}

func (p *Pipeline) past(ctx context.Context, namespace, id string) (past Past, known bool) {
	log, can := p.cfg.Audit.(pastRows)
	if !can || id == "" {
		return past, false
	}
	past = Past{ID: id, Namespace: namespace}
	for row, err := range log.Rows(ctx, audit.Filter{Namespace: namespace, Run: id}) {
		if err != nil {
			return past, false
		}
		var end struct{ Ended, Why, Reason string }
		_ = json.Unmarshal(row.Data, &end) // the log holds only what we wrote
		switch row.Kind {
		case event.ExecutionStarted, event.SessionCreated:
			past.Began, past.Session, known = row.Time, row.Kind == event.SessionCreated, true
		case event.SessionKilled:
			past.Ended, known = end.Why, true
		case event.ExecutionCompleted, event.ExecutionFailed, event.ExecutionTimeout:
			if past.Session { // a session could not be ended, say
				continue
			}
			past.Ended, past.Reason, known = end.Ended, end.Reason, true
			if past.Ended == "" {
				past.Ended = strings.TrimPrefix(row.Kind, "execution.")
			}
		}
	}
	return past, known
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
