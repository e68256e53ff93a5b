package audit

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// A log is a series of files: PATH, then PATH.2, PATH.3 and so on in the directory PATH-files. The last row of each but
// the last file is of rotatedKind, and nothing follows it there. The next file starts with a row of continuedKind;
// numbers, chain and tree continue. Files are never renamed, so processes that have one open find its last row, and
// continue in the next file.
const (
	rotatedKind   = "audit.rotated"
	continuedKind = "audit.continued"
	deletedKind   = "audit.deleted"
)

// errRotated is the error of a closed file.
var errRotated = errors.New("it was rotated")

// continuation is the data of the first row of a file that continues another one.
type continuation struct {
	File       string `json:"file"` // base name of the file before
	Origin     string `json:"origin"`
	Rows       int64  `json:"rows"`       // number of all rows before
	Root       string `json:"root"`       // base64 root of the tree over them
	Checkpoint string `json:"checkpoint"` // signed, covers them
}

// File is a file of a log.
type File struct {
	Path  string `json:"path"`
	First int64  `json:"first"` // Seq of its first row
	Last  int64  `json:"last"`  // Seq of its last row
}

func fileName(path string, number int) string {
	if number == 1 {
		return path
	}
	return filepath.Join(laterFiles(path), filepath.Base(path)+"."+strconv.Itoa(number))
}

// laterFiles returns the directory of a log's files other than the first.
func laterFiles(path string) string { return path + "-files" }

// fileNumbers returns the numbers of the existing files of the log at path, in order.
func fileNumbers(path string) (numbers []int, err error) {
	if _, err := os.Lstat(path); err == nil {
		numbers = []int{1}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(laterFiles(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(e.Name()), "."))
		if err == nil && n > 1 && fileName(path, n) == filepath.Join(laterFiles(path), e.Name()) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// hasNextFile reports whether the log has a file after l.
func (l *logFile) hasNextFile() bool {
	numbers, err := fileNumbers(l.base)
	return err == nil && len(numbers) > 0 && numbers[len(numbers)-1] > l.number
}

// nextNumber returns the number of the file after l. If that, and l, were deleted as old, it is the number of the first
// later file.
func (l *logFile) nextNumber() (int, error) {
	if _, err := os.Lstat(l.path); !errors.Is(err, fs.ErrNotExist) {
		return l.number + 1, nil
	}
	numbers, err := fileNumbers(l.base)
	for _, n := range numbers {
		if n > l.number {
			return n, err
		}
	}
	return l.number + 1, cmp.Or(err, errMoved)
}

// Files returns the paths of the existing files of the log at path, in order.
func Files(path string) (paths []string, err error) {
	numbers, err := fileNumbers(path)
	for _, n := range numbers {
		paths = append(paths, fileName(path, n))
	}
	return paths, err
}

// ActiveFile returns the file to which rows are appended.
func (l *Log) ActiveFile(ctx context.Context) (os.FileInfo, error) {
	f, err := l.currentFile(ctx)
	if err != nil {
		return nil, l.readError(err)
	}
	return f.file, nil
}

// Rotate closes the active file: it takes no more rows, and all of its rows are signed. New rows go to a new file. Both
// need no more disk space than the reserve beside the log. If the process is killed, the next one that appends
// completes the rotation. A file without rows stays: closed is zero then.
func (l *Log) Rotate(ctx context.Context) (closed File, err error) {
	defer func() { err = l.wrapFault("rotate", err) }()
	if l.signing == nil {
		return closed, errNoSigner
	}
	f, err := l.usableFile(ctx)
	if err != nil {
		return closed, err
	}
	if head, err := lastSeq(ctx, f.db); err != nil || head <= f.first && f.number > 1 || head == 0 {
		return closed, err
	}
	err = l.withReserve(func() error {
		if err := f.closeRows(ctx); err != nil && !errors.Is(err, errRotated) {
			return err
		}
		_, err := l.openNextFile(ctx, f)
		return err
	})
	if err != nil {
		return closed, err
	}
	f.foldWAL(ctx)
	last, err := lastSeq(ctx, f.db)
	return File{f.path, f.first, last}, err
}

// FirstSeq returns the number of the first available row: earlier files were deleted or moved away.
func (l *Log) FirstSeq(ctx context.Context) (int64, error) {
	files, err := l.filesFrom(ctx, 1)
	if err != nil {
		return 0, l.readError(err)
	}
	return files[0].first, nil
}

// OldestTime returns the time of the first row of the active file, or zero if it has none.
func (l *Log) OldestTime(ctx context.Context) (time.Time, error) {
	f, err := l.currentFile(ctx)
	if err != nil {
		return time.Time{}, l.readError(err)
	}
	nanos, err := statefile.One[int64](ctx, f.db, "SELECT time FROM audit ORDER BY seq LIMIT 1")
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return time.Unix(0, nanos).UTC(), l.readError(err)
}

// closeRows appends the last row of a file.
func (l *logFile) closeRows(ctx context.Context) error {
	r, err := newRequest([]Entry{{Kind: rotatedKind, Data: map[string]string{"next": filepath.Base(fileName(l.base, l.number+1))}}})
	if err == nil {
		err = l.pack(ctx, r)
	}
	if err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errClosed
	}
	if err := l.keepWAL(ctx); err != nil {
		return err
	}
	l.writeMu.Lock()
	last, err := l.writeBatch([]*request{r}, l.w.lockDatabase(l)) // alone: nothing may follow it
	if err == nil {
		l.wakeSigner(1)
		err = l.disk.flush(l, last)
	}
	return err
}

// openNextFile opens the file after f, which is closed, as the active one, and creates it if no other process has.
func (l *Log) openNextFile(ctx context.Context, f *logFile) (*logFile, error) {
	select {
	case l.rotating <- struct{}{}:
		defer func() { <-l.rotating }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if now := l.active.Load(); now != f {
		return now, nil
	}
	number, err := f.nextNumber()
	if err != nil {
		return nil, err
	}
	path := fileName(l.path, number)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := l.createNext(ctx, f, path); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.active.Load(); now != f { // reopened after a disk failure
		return now, nil
	}
	if l.closed {
		return nil, errClosed
	}
	next, err := l.openFile(ctx, number, true)
	if err != nil {
		return nil, err
	}
	l.active.Store(next)
	return next, nil
}

// foldWAL moves the rows of a closed file's -wal file into it, if the disk has space, so that the file can be moved.
func (l *logFile) foldWAL(ctx context.Context) {
	wal, err := os.Stat(l.path + "-wal")
	if err == nil && statefile.Free(filepath.Dir(l.path)) > wal.Size()+2*reserveSize {
		_, _ = l.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
}

// keepWAL keeps commits from moving rows of the -wal file into the file, which would take the space that a rotation on
// a full disk needs.
func (l *logFile) keepWAL(ctx context.Context) error {
	if statefile.Free(filepath.Dir(l.path)) > 2*reserveSize+walSize {
		return nil
	}
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	err := l.w.ensureReady(l)
	if err == nil {
		_, err = l.w.conn.ExecContext(ctx, "PRAGMA wal_autocheckpoint = 0")
	}
	l.full.Store(true)
	return err
}

// createNext creates the file that continues f.
func (l *Log) createNext(ctx context.Context, f *logFile, path string) error {
	if l.signing == nil {
		return fmt.Errorf("its rotation is not finished: %w", errNoSigner)
	}
	note, err := f.checkpointNow(ctx)
	if err != nil {
		return err
	}
	c, err := checkpoint.Open(note, nil)
	if err != nil {
		return err
	}
	var before Row
	for r, err := range f.rows(ctx, Filter{After: c.Size - 1}) {
		if err != nil {
			return err
		}
		before = r
	}
	if before.Seq != c.Size || before.Kind != rotatedKind {
		return fmt.Errorf("row %d of %s should be its last, of kind %s: see sandboxmcp audit verify", c.Size, f.path, rotatedKind)
	}
	t, err := merkle.Reader{Ctx: ctx, Newest: f.db}.Tree(c.Size)
	if err != nil {
		return err
	}
	data, err := json.Marshal(continuation{filepath.Base(f.path), c.Origin, c.Size, c.Root.String(), string(note)})
	if err != nil {
		return err
	}
	r := Row{Seq: c.Size + 1, Time: time.Unix(0, l.now().UnixNano()).UTC(), Kind: continuedKind, Data: data, Prev: before.Hash}
	text, err := firstRowSQL(r, t, note)
	if err != nil {
		return err
	}
	return schema.Create(ctx, path, text)
}

// firstRowSQL returns the statements that insert the start of a file.
func firstRowSQL(first Row, t merkle.Tree, note []byte) (string, error) {
	packed, _, err := pack.New(pack.Dictionary).Pack(first.Data, nil)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, n := range merkle.EdgeNodes(t.Size) {
		fmt.Fprintf(&b, "INSERT INTO tree (level, position, hash) VALUES (%d, %d, x'%x');\n", n.Level, n.Position, t.Edge[i][:])
	}
	hash := hashRow(first)
	fmt.Fprintf(&b, "INSERT INTO checkpoints (size, note) VALUES (%d, CAST(x'%x' AS TEXT));\n", t.Size, note)
	fmt.Fprintf(&b, "INSERT INTO audit (seq, time, kind, run, namespace, prev, hash, data) VALUES (%d, %d, '%s', '', '', x'%s', "+
		"x'%s', x'%x');\n",
		first.Seq, first.Time.UnixNano(), first.Kind, first.Prev, hex.EncodeToString(hash[:]), packed)
	return b.String(), nil
}

// Prune deletes the files before the active one whose rows are all older than before, the oldest first. A row records
// each before it is deleted. Newer rows stay provable without them.
func (l *Log) Prune(ctx context.Context, before time.Time) (deleted []File, err error) {
	defer func() { err = l.wrapFault("delete files of", err) }()
	err = l.withReserve(func() error {
		files, err := l.filesFrom(ctx, 1) // reading a file takes some space, too
		if err != nil {
			return err
		}
		for _, f := range files[:len(files)-1] {
			var last, nanos int64
			err := f.db.QueryRowContext(ctx, "SELECT max(seq), max(time) FROM audit").Scan(&last, &nanos)
			if err != nil || !time.Unix(0, nanos).Before(before) {
				return err
			}
			d := File{f.path, f.first, last}
			if err := l.delete(ctx, f, d); err != nil {
				return err
			}
			deleted = append(deleted, d)
		}
		return nil
	})
	return deleted, err
}

func (l *Log) delete(ctx context.Context, f *logFile, d File) error {
	named := d
	named.Path = filepath.Base(d.Path)
	if _, err := l.Append(ctx, Entry{Kind: deletedKind, Data: named}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.files, f.number)
	err := f.close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if e := os.Remove(f.path + suffix); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, statefile.SyncDir(filepath.Dir(f.path)))
}

// reserveSize is the size, in bytes, of the file beside the log whose space a rotation on a full disk uses: a new file
// has 100 kB, twice during its creation.
const reserveSize = 1 << 20

func (l *Log) reservePath() string { return l.path + "-reserve" }

// withReserve calls do, which frees disk space, and on a full disk gives it the space of the reserve.
func (l *Log) withReserve(do func() error) error {
	spare := int64(reserveSize)
	if room := statefile.Free(filepath.Dir(l.path)); room >= 0 && room < reserveSize && os.Remove(l.reservePath()) == nil {
		spare = 64 << 10 // if do frees no space, the next call needs the rest of the reserve
	}
	err := do()
	l.makeReserve(spare)
	return err
}

// makeReserve creates the reserve, smaller if the disk would have less than spare bytes left.
func (l *Log) makeReserve(spare int64) {
	size := min(reserveSize, statefile.Free(filepath.Dir(l.path))-spare)
	if _, err := os.Lstat(l.reservePath()); err == nil || size < 128<<10 {
		return
	}
	_ = statefile.CreateFile(l.reservePath(), schema.TempKind, make([]byte, size))
}
