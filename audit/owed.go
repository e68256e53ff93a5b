package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// A revocation must succeed also if the log can't be written, as on a full disk. Its rows are then owed: they are in a
// file beside the log, whose space was reserved before, until they can be written.

// Owed is the error of [Log.Append] for late entries, which are stored, and written as soon as possible.
type Owed struct {
	err  error
	lost bool // if the process ends: they are only in memory
}

func (o *Owed) Error() string {
	text := "the row of this can't be written now, and is written as soon as the audit log can be"
	if o.lost {
		text += ", unless this process ends before"
	}
	return text + ": " + o.err.Error()
}

func (o *Owed) Unwrap() error { return o.err }

// OwedText is an Owed without details.
const OwedText = "it is done, but the audit log can't be written at the moment: the row of this is written as soon as that can be"

// owedRow is a row that could not be written yet.
type owedRow struct {
	Kind      string          `json:"kind"`
	Run       string          `json:"run,omitempty"`
	Namespace string          `json:"namespace"`
	Data      json.RawMessage `json:"data"`
	At        time.Time       `json:"at"` // when it happened
}

// The size of the file in bytes, the maximum number of owed rows in memory, and the interval of tries to write them.
const (
	owedSize    = 64 << 10
	maxDebts    = 1000
	settleEvery = time.Second
	owedWait    = 2 * time.Second
)

func (l *Log) owedPath() string { return l.path + "-owed" }

// allLate reports whether all entries are Late.
func allLate(entries []Entry) bool {
	return !slices.ContainsFunc(entries, func(e Entry) bool { return !e.Late })
}

// keepOwed stores rows that could not be written, and returns the resulting error.
func (l *Log) keepOwed(rows []Row, why error) error {
	l.owedMu.Lock()
	defer l.owedMu.Unlock()
	var lines bytes.Buffer
	var debts []owedRow
	for _, r := range rows {
		d := owedRow{r.Kind, r.Run, r.Namespace, r.Data, l.now().UTC()}
		debts = append(debts, d)
		if err := json.NewEncoder(&lines).Encode(d); err != nil {
			return fmt.Errorf("%w; and it is lost: %v", why, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), owedWait)
	defer cancel()
	if err := l.withOwedFile(ctx, func(f *os.File) error { return appendLines(f, lines.Bytes()) }); err == nil {
		return &Owed{err: why}
	}
	if len(l.owed)+len(debts) > maxDebts {
		return fmt.Errorf("%w; and it is lost, as %d rows are owed already", why, len(l.owed))
	}
	l.owed = append(l.owed, debts...)
	return &Owed{why, true}
}

// withOwedFile calls f with the locked file of owed rows.
func (l *Log) withOwedFile(ctx context.Context, f func(*os.File) error) error {
	file, err := statefile.LockFile(ctx, l.owedPath(), false, owedWait)
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}

// appendLines appends lines to the lines of a file, over its zeros: a file system that writes in place needs no space
// for them.
func appendLines(f *os.File, lines []byte) error {
	before, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	end := int64(len(lineBytes(before)))
	if end > 0 && before[end-1] != '\n' { // a partial line must not swallow the next one
		lines = append([]byte("\n"), lines...)
	}
	_, err = f.WriteAt(lines, end)
	if err == nil {
		err = f.Sync()
	}
	if err != nil { // a partial line is not a row
		_, _ = f.WriteAt(make([]byte, max(0, min(int64(len(lines)), int64(len(before))-end))), end)
		_ = f.Truncate(int64(len(before)))
	}
	return err
}

// lineBytes returns the content of the file before its zeros.
func lineBytes(content []byte) []byte {
	if i := bytes.IndexByte(content, 0); i >= 0 {
		return content[:i]
	}
	return content
}

// writeOwedLoop writes owed rows, of this or other processes, until ctx ends.
func (l *Log) writeOwedLoop(ctx context.Context) {
	defer close(l.owedLoopDone)
	if _, err := os.Lstat(l.owedPath()); err != nil { // creating the file on a full disk would fail
		_ = statefile.CreateFile(l.owedPath(), schema.TempKind, make([]byte, owedSize))
	}
	l.makeReserve(reserveSize)
	again := time.NewTicker(settleEvery)
	defer again.Stop()
	for {
		_ = l.writeOwed(ctx) // the next round tries again
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// hasOwed reports whether there are owed rows. The caller holds owedMu.
func (l *Log) hasOwed() bool {
	if len(l.owed) > 0 {
		return true
	}
	f, err := os.Open(l.owedPath())
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, 1)
	n, _ := f.Read(first)
	return n == 1 && first[0] != 0
}

// writeOwed writes the owed rows, and clears the file. Rows that the log has already are left out: a process died
// between the two steps.
func (l *Log) writeOwed(ctx context.Context) error {
	l.owedMu.Lock()
	defer l.owedMu.Unlock()
	if !l.hasOwed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, owedWait)
	defer cancel()
	err := l.withOwedFile(ctx, func(f *os.File) error {
		content, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		debts := slices.Clone(l.owed)
		for line := range strings.Lines(string(lineBytes(content))) {
			d, whole := parseOwed(line)
			if !whole {
				continue
			}
			if written, err := l.isWritten(ctx, d); err != nil {
				return err
			} else if !written {
				debts = append(debts, d)
			}
		}
		if err := l.appendOwed(ctx, debts); err != nil {
			return err
		}
		l.owed = nil
		_, err = f.WriteAt(make([]byte, max(len(content), owedSize)), 0)
		return errors.Join(err, f.Sync())
	})
	if err != nil && len(l.owed) > 0 { // the file may be missing
		if err = l.appendOwed(ctx, l.owed); err == nil {
			l.owed = nil
		}
	}
	return err
}

// data returns the data of an owed row, with the time of its event.
func (d owedRow) data() json.RawMessage {
	head := `{"happened":"` + d.At.Format(time.RFC3339Nano) + `"`
	if d.Data[1] != '}' {
		head += ","
	}
	return append(json.RawMessage(head), d.Data[1:]...)
}

// parseOwed parses a line of the file, and reports whether it is whole.
func parseOwed(line string) (d owedRow, whole bool) {
	err := json.Unmarshal([]byte(line), &d)
	return d, err == nil && d.Kind != "" && bytes.HasPrefix(d.Data, []byte("{")) && json.Valid(d.data())
}

// isWritten reports whether the log has an owed row.
func (l *Log) isWritten(ctx context.Context, d owedRow) (bool, error) {
	for _, err := range l.Rows(ctx, Filter{Kinds: []string{d.Kind}, Run: d.Run, Namespace: d.Namespace,
		Contains: []string{string(d.data())}}) {
		return err == nil, err
	}
	return false, nil
}

// appendOwed writes rows.
func (l *Log) appendOwed(ctx context.Context, debts []owedRow) error {
	entries := make([]Entry, 0, len(debts))
	for _, d := range debts {
		entries = append(entries, Entry{Kind: d.Kind, Run: d.Run, Namespace: d.Namespace, Data: d.data()})
	}
	_, err := l.Append(ctx, entries...)
	return err
}

// closeOwed stops writeOwedLoop after a last try. An error says that rows are lost.
func (l *Log) closeOwed() error {
	if l.stopOwedLoop != nil {
		l.stopOwedLoop()
		<-l.owedLoopDone
	}
	l.owedMu.Lock()
	left := len(l.owed)
	l.owedMu.Unlock()
	if l.stopOwedLoop == nil && left == 0 { // opened for reading
		return nil
	}
	err := l.writeOwed(context.Background())
	l.owedMu.Lock()
	defer l.owedMu.Unlock()
	if len(l.owed) == 0 {
		return nil
	}
	return fmt.Errorf("%d rows of audit log %q are lost, the first of them %s: %w", len(l.owed), l.path, l.owed[0].Kind, err)
}

// Owe stores late entries for the log at path, which can't be opened for the reason why. It returns an *Owed, an error
// about lost rows, or why if the entries are not late.
func Owe(path string, why error, entries ...Entry) error {
	if !allLate(entries) {
		return why
	}
	r, err := newRequest(entries)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	l := &Log{path: path, now: time.Now}
	err = l.keepOwed(r.rows, why)
	if owed, is := errors.AsType[*Owed](err); is && owed.lost {
		return fmt.Errorf("its audit row is lost: %w", why)
	}
	return err
}
