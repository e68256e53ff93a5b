// Package audit keeps a log that shows when it has been changed: one SQLite table into which rows
// can only be put at the end, each holding the hash of the one before.
//
// What holds:
//   - A row that [Log.Append] returned is on the disk and stays in the log, even if this process or the
//     machine dies in the next moment. One that was to be there soon (Entry.Soon) stays if the process
//     dies, and a moment later, before any row after it is returned, also if the machine does.
//   - Any number of goroutines and processes may append to one log at once; there is one chain.
//   - Triggers refuse UPDATE, DELETE and REPLACE. Whoever owns the file can get around them, but an
//     edited, replaced, moved or removed row breaks the chain, and [Log.Verify] names it.
//   - Seq orders the rows. Time is what the clock said when the row was written, so it follows Seq
//     too, but only as long as nobody sets the clock back.
//
// A receipt that comes with a row is kept with it; the row says its hash. Both are compressed, and come out byte for
// byte.
//
// A log is a series of files. [Log.Rotate] closes the last one and goes on in a new one, whose first row has the signed
// checkpoint over all rows before: numbers, chain and tree go on, and older files can be moved away or deleted
// ([Log.Prune]).
//
// Whoever cuts rows off the end, or rewrites all rows from one on, leaves a chain that is whole. A log that is signed
// ([OpenSigned]) shows that, too: the hashes of its rows are the leaves of a Merkle tree (RFC 6962), and signed
// checkpoints (C2SP tlog-checkpoint) say what the tree was at a size. They are in the log, the newest is also in a file
// beside it, and anybody may keep some elsewhere. [Log.Proof] proves one row to somebody who has only the public key.
//
// The first row is signed as soon as it is written, so a log of which rows, receipts or keys say that it was signed,
// and which has no checkpoint, is one from which they were taken ([Report.Bad]); rows that were signed late are
// remarks.
//
// What does not show: rows after the newest checkpoint (Report.Unsigned) that are cut off or rewritten; a log and the
// file beside it that are both replaced by an older copy of both, and whatever somebody does who has the key, unless a
// newer checkpoint is kept where they cannot write: package witness takes it there.
//
// A log consists of what the packages below have: signed roots (checkpoint), the tree of hashes (merkle), compressed
// rows (pack), and the database (schema).
//
// golang.org/x/mod does the arithmetic of the tree and the format of signed notes, as for Go's own
// checksum database; modernc.org/sqlite is SQLite without C.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Entry is the content of a new row.
type Entry struct {
	Kind      string // what happened, such as "execution.started"; must not be empty
	Run       string // the run that it happened in, or ""
	Namespace string
	Data      any    // encodes to a JSON object of at most 1 MiB; nil is {}
	Receipt   []byte // kept beside the row, which says its hash; nil is none
	Soon      bool   // Append need not wait for the disk, if all entries of a call say so
	// Late is for what has happened in any case, such as that a right was taken away: if all entries of a call say so and
	// they can't be written, the error is an [*Owed], and they are written later.
	Late bool
}

// Row is an entry of the log.
type Row struct {
	Seq       int64           `json:"seq"`  // 1, 2, 3 and so on, without gaps
	Time      time.Time       `json:"time"` // when it was written, by this machine's clock, in UTC
	Kind      string          `json:"kind"`
	Run       string          `json:"run,omitempty"`
	Namespace string          `json:"namespace"`
	Data      json.RawMessage `json:"data"`
	Prev      string          `json:"prev"` // hex hash of the row before; 64 zeros in the first row
	Hash      string          `json:"hash"` // hex SHA-256 of everything above
}

// Log is an open audit log: a series of files, of which rows are appended to the last, the active one. It is safe for
// concurrent use.
type Log struct {
	path      string        // of its first file, by which a log is named
	wait      time.Duration // longest wait for a lock
	signing   *Signing      // nil where nothing is signed
	exclusive bool          // nobody else can open it
	now       func() time.Time
	sync      func(*os.File) error // puts a file on the disk

	active   atomic.Pointer[logFile]
	rotating chan struct{}    // has a value while a file that becomes the active one is created, or while Close runs
	mu       sync.Mutex       // guards files
	files    map[int]*logFile // that are open, by number
	named    []*logFile       // the only files, where OpenFiles named them
	closed   bool

	recovery     recovery
	owedMu       sync.Mutex // held while rows that are owed are kept or written
	owed         []owedRow  // owed rows that no file has; guarded by debtMu
	stopOwedLoop func()     // nil where nothing settles
	owedLoopDone chan struct{}
}

// Open opens the log at path. If there is no file, Open creates a log with mode 0600, and the directories above it
// with 0700. Any other file is left alone: a damaged or foreign file is an error, and is never replaced by a new log.
//
// While the log is open, nothing else in this process may open its file, not even to read it: closing a file drops the
// process's POSIX locks on it, SQLite's too (https://sqlite.org/howtocorrupt.html).
func Open(ctx context.Context, path string) (*Log, error) {
	return openWithWait(ctx, path, schema.LockWait, nil)
}

// OpenToRead is Open for what reads the log once. Where a full disk has no room for SQLite's -shm file, which is there
// as long as anybody has the log open, the log is read without one, and nobody else can open it until Close.
func OpenToRead(ctx context.Context, path string) (*Log, error) {
	l, err := Open(ctx, path)
	if IsFull(err) && statefile.ExclusiveVFS != "" {
		return openPrepared(ctx, path, &Log{wait: schema.LockWait, exclusive: true})
	}
	return l, err
}

func openWithWait(ctx context.Context, path string, wait time.Duration, s *Signing) (*Log, error) {
	return openPrepared(ctx, path, &Log{wait: wait, signing: s})
}

func openPrepared(ctx context.Context, path string, l *Log) (*Log, error) {
	l.now, l.sync, l.files, l.rotating = time.Now, statefile.SyncData, map[int]*logFile{}, make(chan struct{}, 1)
	s := l.signing
	var err error
	if l.path, err = filepath.Abs(path); err == nil {
		openIt := func() error { return l.openActive(ctx) }
		if s != nil && s.FreesSpace {
			err = l.withReserve(openIt)
		} else {
			err = openIt()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open audit log %q: %w", path, explain(err, l.wait))
	}
	if s != nil {
		if err := l.recordLoss(ctx); err != nil && s.Log != nil {
			s.Log.Error("it is not known whether the audit log has all rows that were acknowledged", "log", l.path, "error", err)
		}
		settling, stop := context.WithCancel(context.Background())
		l.stopOwedLoop, l.owedLoopDone = stop, make(chan struct{})
		go l.writeOwedLoop(settling)
	}
	return l, nil
}

// openActive opens the last file.
func (l *Log) openActive(ctx context.Context) error {
	numbers, err := fileNumbers(l.path)
	if err != nil {
		return err
	}
	number := 1
	if len(numbers) > 0 {
		number = numbers[len(numbers)-1]
	}
	f, err := l.openFile(ctx, number, true)
	if err != nil {
		return err
	}
	l.active.Store(f)
	return nil
}

// Close waits for the appends under way, signs what was appended, and closes the log. Later appends are errors. An
// error says that rows stay unsigned, or that a file could not be closed. It is safe to call more than once.
func (l *Log) Close() error {
	err := l.closeOwed()
	l.rotating <- struct{}{}
	defer func() { <-l.rotating }()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, f := range l.files {
		err = errors.Join(err, f.close())
	}
	for _, f := range l.named {
		err = errors.Join(err, f.close())
	}
	return err
}
