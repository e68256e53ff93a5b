// Package audit keeps a tamper-evident log: an append-only SQLite table, in which each row has the hash of the row
// before.
//
// Guarantees:
//   - A row that [Log.Append] returned is on the disk and stays in the log, even if this process or the
//     machine dies in the next moment. One that was to be there soon (Entry.Soon) stays if the process
//     dies, and a moment later, before any row after it is returned, also if the machine does.
//   - Any number of goroutines and processes may append to one log at once; there is one chain.
//   - Triggers refuse UPDATE, DELETE and REPLACE. The owner of the file can get around them, but an
//     edited, replaced, moved or removed row breaks the chain, and [Log.Verify] names it.
//   - Seq orders the rows. Time is the clock's time when the row was written, so it follows Seq
//     too, but only as long as nobody sets the clock back.
//
// A receipt is stored with its row, which has its hash. Both are compressed without loss.
//
// A log is a series of files. [Log.Rotate] closes the last one and starts a new one, whose first row has the signed
// checkpoint over all rows before: numbers, chain and tree continue, and older files can be moved away or deleted
// ([Log.Prune]).
//
// Cutting rows off the end, or rewriting all rows from one on, leaves a valid chain. A signed log ([OpenSigned])
// reveals that, too: the hashes of its rows are the leaves of a Merkle tree (RFC 6962), and signed checkpoints (C2SP
// tlog-checkpoint) have the root of the tree at a size. They are in the log, the newest is also in a file beside it,
// and copies may be kept elsewhere. [Log.Proof] proves one row to holders of the public key alone.
//
// The first row is signed as soon as it is written. So if rows, receipts or keys say that a log was signed, and it has
// no checkpoint, the checkpoints were removed ([Report.Bad]); rows that were signed late are remarks.
//
// Not detected: cutting off or rewriting rows after the newest checkpoint (Report.Unsigned); replacing the log and the
// file beside it by older copies; and any change by an owner of the key. A newer checkpoint in a place where the
// attacker cannot write reveals these: package witness pushes it there.
//
// Files: append and writer write rows, sign and signing sign checkpoints, rotate starts files, verify checks them, rows,
// find and latest read, and proof proves a row; owed and acknowledged keep what could not be written.
//
// The parts of a log are in the packages below: signed roots (checkpoint), the tree of hashes (merkle), compressed rows
// (pack), and the database (schema).
//
// golang.org/x/mod implements the tree and signed notes, as for Go's own checksum database; modernc.org/sqlite is
// SQLite without C.
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
	Kind      string // event, such as "execution.started"; must not be empty
	Run       string // id of the run, or ""
	Namespace string
	Data      any    // encodes to a JSON object of at most 1 MiB; nil is {}
	Receipt   []byte // stored with the row, which has its hash; nil is none
	Soon      bool   // Append need not wait for the disk, if it is set in all entries of the call
	// Late is for events that can't be prevented any more, such as a revocation: if it is set in all entries of a call and
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
	path      string        // of the first file, which names the log
	wait      time.Duration // longest wait for a lock
	signing   *Signing      // nil if nothing is signed
	exclusive bool          // no other process can open it
	now       func() time.Time
	sync      func(*os.File) error // flushes a file to the disk

	active   atomic.Pointer[logFile]
	rotating chan struct{}    // holds a value while the next active file is created, and while Close runs
	mu       sync.Mutex       // guards files
	files    map[int]*logFile // open files, by number
	named    []*logFile       // the only files, if opened by OpenFiles
	closed   bool

	recovery     recovery
	owedMu       sync.Mutex // held while owed rows are stored or written
	owed         []owedRow  // owed rows that are not in the file; guarded by owedMu
	stopOwedLoop func()     // nil without a writeOwedLoop
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

// OpenToRead is Open for reading the log once. If the disk has no space for SQLite's -shm file, the log is read without
// one, and no other process can open it until Close.
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
			s.Log.Error("can't tell whether the audit log has all acknowledged rows", "log", l.path, "error", err)
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

// Close waits for running appends, signs the appended rows, and closes the log. Later appends fail. An error says that
// rows stay unsigned, or that a file could not be closed. It is safe to call more than once.
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
