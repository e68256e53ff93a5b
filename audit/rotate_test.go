package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// rotated returns the path of a log of three files: rows 1 to 301, 302 to 603, 604 to 904; rows 302 and 604 are
// continuations.
func rotated(t testing.TB) (path string, rows []Row) {
	t.Helper()
	path = logPath(t)
	l := openSigned(t, path, signing(100))
	for i := range 3 {
		fill(t, l, 300)
		if i == 2 {
			break
		}
		if _, err := l.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rows = collect(t, l, Filter{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path, rows
}

func copyDir(t testing.TB, path string) string {
	t.Helper()
	to := logPath(t)
	if err := os.CopyFS(filepath.Dir(to), os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	return to
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestRotate(t *testing.T) {
	path, rows := rotated(t)
	if len(rows) != 904 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		if r.Seq != int64(i+1) {
			t.Fatalf("row %d has number %d", i+1, r.Seq)
		}
	}
	r := wantSigned(t, path, 904, 'a')
	if len(r.Files) != 3 || r.Files[1] != (File{fileName(path, 2), 302, 603}) || r.Absent != 0 {
		t.Errorf("files %+v, %d absent", r.Files, r.Absent)
	}
	l := openLog(t, path)
	for _, f := range []Filter{{Limit: 5}, {Limit: 302}, {Limit: 700}, {After: 300, Before: 305}, {Run: "r7"}, {Kinds: []string{rotatedKind}},
		{Contains: []string{`"n":9}`}, Limit: 2}, {After: 603}} {
		var want []Row
		for _, r := range rows {
			if r.Seq > f.After && (f.Before == 0 || r.Seq < f.Before) && (f.Run == "" || r.Run == f.Run) &&
				(f.Kinds == nil || r.Kind == f.Kinds[0]) &&
				(f.Contains == nil || strings.Contains(string(r.Data), f.Contains[0])) {
				want = append(want, r)
			}
		}
		if f.Limit > 0 {
			want = want[max(0, len(want)-f.Limit):]
		}
		if got := collect(t, l, f); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: %d rows, want %d", f, len(got), len(want))
		}
	}
}

// TestRotateProofs: the newest checkpoint proves the rows of all files, and later checkpoints extend all earlier
// ones.
func TestRotateProofs(t *testing.T) {
	path, rows := rotated(t)
	l := openLog(t, path)
	for _, seq := range []int64{1, 255, 256, 257, 301, 302, 303, 512, 603, 604, 904} {
		text, err := l.Proof(t.Context(), fmt.Sprint(seq))
		if err != nil {
			t.Fatal(seq, err)
		}
		p, err := CheckProof(text, keys('a'))
		if err != nil || p.Row.Hash != rows[seq-1].Hash {
			t.Error(seq, p.Row.Seq, err)
		}
	}
	for _, old := range []int64{1, 300, 302, 303, 500, 603, 900} {
		if _, err := l.Consistency(t.Context(), old, 904); err != nil {
			t.Error(old, err)
		}
	}
	remove(t, path)
	remove(t, fileName(path, 2))
	l = openLog(t, path)
	for _, seq := range []int64{604, 700, 904} {
		text, err := l.Proof(t.Context(), fmt.Sprint(seq))
		if err == nil {
			_, err = CheckProof(text, keys('a'))
		}
		if err != nil {
			t.Error(seq, err)
		}
	}
	_, err := l.Proof(t.Context(), "303")
	wantError(t, err, "row 303 is in a file that is not here")
	if _, err := l.Consistency(t.Context(), 603, 904); err != nil {
		t.Error("a checkpoint at the rotation is not continued:", err)
	}
	l = openSigned(t, path, signing(100))
	fill(t, l, 300)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantSigned(t, path, 301+300, 'a')
}

// change changes the log like its owner can: without its triggers, which it restores.
func change(t testing.TB, path string, statements ...string) {
	t.Helper()
	var drop, again []string
	for _, s := range strings.SplitAfter(schema.Text, "END;") {
		if i := strings.Index(s, "CREATE TRIGGER "); i >= 0 {
			drop, again = append(drop, "DROP TRIGGER "+strings.Fields(s[i:])[2]), append(again, s[i:])
		}
	}
	tamper(t, path, slices.Concat(drop, statements, again)...)
}

// TestRotateVerify: deleted, moved, changed, swapped and restored files are noticed.
func TestRotateVerify(t *testing.T) {
	original, _ := rotated(t)
	other, _ := rotated(t)
	for name, test := range map[string]struct {
		do   func(path string)
		bad  string // "" is none
		rows int64
	}{
		"first deleted":  {func(path string) { remove(t, path) }, "", 603},
		"second deleted": {func(path string) { remove(t, fileName(path, 2)) }, "", 602},
		"last deleted":   {func(path string) { remove(t, fileName(path, 3)) }, "covers them, so they were cut off", 603},
		"all but first": {func(path string) { remove(t, fileName(path, 3)); remove(t, fileName(path, 2)) }, "covers them, so they were cut off",
			301},
		"row of the first edited": {func(path string) {
			change(t, path, "UPDATE audit SET namespace = 'x' WHERE seq = 7")
		}, "row 7 was edited", 6},
		"last row of the first cut off": {func(path string) {
			change(t, path, "DELETE FROM audit WHERE seq = 301", "DELETE FROM checkpoints WHERE size = 301")
		}, "", -1},
		"file of another log": {func(path string) {
			b, err := os.ReadFile(fileName(other, 2))
			if err == nil {
				err = os.WriteFile(fileName(path, 2), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "row 302", -1},
		"edge of the tree changed": {func(path string) {
			change(t, fileName(path, 3), "UPDATE tree SET hash = zeroblob(32) WHERE level = 0")
		}, "does not continue what the checkpoint in its first row", -1},
	} {
		t.Run(name, func(t *testing.T) {
			path := copyDir(t, original)
			test.do(path)
			r := verify(t, path, VerifyOptions{Keys: keys('a')})
			switch {
			case test.rows >= 0 && r.Rows != test.rows:
				t.Errorf("%d rows are good, want %d", r.Rows, test.rows)
			case test.bad == "" && test.rows >= 0 && r.Bad != nil, test.bad != "" && (r.Bad == nil || !strings.Contains(r.Bad.String(), test.bad)),
				test.rows < 0 && r.Bad == nil:
				t.Errorf("bad: %v; want %q", r.Bad, test.bad)
			}
			if test.bad == "" && test.rows >= 0 && r.Absent == 0 {
				t.Error("nobody says that rows are absent")
			}
		})
	}
}

func TestOpenFiles(t *testing.T) {
	path, rows := rotated(t)
	elsewhere := filepath.Join(t.TempDir(), "old.db")
	if err := os.Rename(path, elsewhere); err != nil {
		t.Fatal(err)
	}
	l, err := OpenFiles(t.Context(), elsewhere, fileName(path, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := collect(t, l, Filter{}); fmt.Sprint(got) != fmt.Sprint(rows[:603]) {
		t.Errorf("%d rows", len(got))
	}
	if r, err := l.Verify(t.Context(), VerifyOptions{Keys: keys('a')}); err != nil || r.Bad != nil || r.Rows != 603 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = OpenFiles(t.Context(), fileName(path, 2), elsewhere)
	wantError(t, err, "name the older file first")
}

// TestRotateWhileOthersWrite: processes that have a log open continue in the next file after any process rotates.
func TestRotateWhileOthersWrite(t *testing.T) {
	path := logPath(t)
	var g sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	written := make([]int, 3)
	follower := openLog(t, path)
	seen := 0
	g.Go(func() {
		for r, err := range follower.RowsAndNew(ctx, Filter{}, time.Millisecond) {
			if seen++; err != nil || r.Seq != int64(seen) {
				t.Errorf("the follower sees row %d as number %d: %v", r.Seq, seen, err)
				return
			}
		}
	})
	var writers sync.WaitGroup
	for i := range written {
		l := openSigned(t, path, signing(20))
		writers.Go(func() {
			for range 60 {
				if _, err := l.Append(t.Context(), Entry{Kind: "k", Soon: i == 0}); err != nil {
					t.Error(err)
					return
				}
				written[i]++
			}
		})
	}
	l := openSigned(t, path, signing(20))
	for range 4 {
		if _, err := l.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
	}
	writers.Wait()
	var of int64
	for r, err := range l.Rows(t.Context(), Filter{Kinds: []string{"k"}}) {
		if err != nil {
			t.Fatal(err, r)
		}
		of++
	}
	if of != 180 {
		t.Errorf("%d rows of 180", of)
	}
	r, err := l.Verify(t.Context(), VerifyOptions{Keys: keys('a')})
	if err != nil || r.Bad != nil {
		t.Fatalf("%+v %v", r.Bad, err)
	}
	stop()
	g.Wait()
}

// TestRotateKilled: a process that is killed anywhere in a rotation leaves a log that others continue, and no row
// is lost.
func TestRotateKilled(t *testing.T) {
	path := logPath(t)
	for range 12 {
		killer(t, 60*time.Millisecond, "rotate", path)
	}
	l := openSigned(t, path, signing(20))
	fill(t, l, 3)
	r, err := l.Verify(t.Context(), VerifyOptions{Keys: keys('a')})
	if err != nil || r.Bad != nil {
		t.Fatalf("%+v %v", r.Bad, err)
	}
	if len(r.Files) < 2 {
		t.Errorf("only %d files", len(r.Files))
	}
}

func childRotate(path string, _ []string) error {
	l, err := OpenSigned(context.Background(), path, signing(7))
	if err != nil {
		return err
	}
	for {
		fmt.Println("rotates")
		if _, err := l.Append(context.Background(), Entry{Kind: "k"}, Entry{Kind: "k"}); err != nil {
			fmt.Println("error:", err)
			return err
		}
		if _, err := l.Rotate(context.Background()); err != nil {
			fmt.Println("error:", err)
			return err
		}
	}
}

// TestRotateUnfinished: a rotation that ended after the last row of a file, by any death, is completed by the next
// append.
func TestRotateUnfinished(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	fill(t, l, 5)
	if err := l.active.Load().closeRows(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := openLog(t, path)
	if got := collect(t, reader, Filter{}); len(got) != 6 {
		t.Errorf("%d rows", len(got))
	}
	fill(t, l, 1)
	if got := collect(t, reader, Filter{}); len(got) != 8 {
		t.Errorf("%d rows", len(got))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantSigned(t, path, 8, 'a')
}

func TestPrune(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l.now = func() time.Time { return at }
	for range 3 {
		fill(t, l, 10)
		if _, err := l.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		at = at.AddDate(0, 0, 30)
	}
	deleted, err := l.Prune(t.Context(), at.AddDate(0, 0, -45))
	if err != nil || len(deleted) != 2 {
		t.Fatalf("%v, %v", deleted, err)
	}
	for _, gone := range []string{path, fileName(path, 2)} {
		if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
			t.Error(gone, err)
		}
	}
	if rows := collect(t, l, Filter{Kinds: []string{deletedKind}}); len(rows) != 2 ||
		!strings.Contains(string(rows[0].Data), `"path":"audit.db"`) {
		t.Errorf("%v", rows)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := verify(t, path, VerifyOptions{Keys: keys('a')})
	if r.Bad != nil || r.Absent != 23 || r.Rows+r.Absent != r.Checkpoint.Size {
		t.Errorf("%+v", r)
	}
}

// TestSignsWhatOthersLeft: rows that a process left unsigned are signed by one that writes nothing, and at once by
// one that writes.
func TestSignsWhatOthersLeft(t *testing.T) {
	path := logPath(t)
	first := openSigned(t, path, signing(1000))
	fill(t, first, 3)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	left := openLog(t, path) // like a killed process, it signs nothing
	fill(t, left, 5)
	idle := openSigned(t, path, signing(1000))
	hosttest.Until(t, "they are signed", func() bool { return strings.HasSuffix(sizes(t, idle), " 8") })
	if err := idle.Close(); err != nil {
		t.Fatal(err)
	}
	fill(t, left, 5)
	f := openLog(t, path).active.Load()
	s := &signer{Signing: signing(1000), hasUnsigned: true, since: time.Now()}
	defer s.close()
	f.lastWrite.Store(int64(time.Since(f.opened)))
	if s.prepareFirst(f); s.untilDue(f) != 0 {
		t.Error("rows that others left wait for quiet, which may never come")
	}
}

// TestReopenedWithoutRow: after a disk failure, a log that lacks an acknowledged row is not written.
func TestReopenedWithoutRow(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(1000))
	rows := fill(t, l, 5)
	failed := errors.New("the disk is gone")
	l.active.Load().disk.failed.Store(&failed)
	lost := rows[4]
	lost.Seq, lost.Hash = 6, strings.Repeat("0", 64)
	l.recovery.written.Store(&lost)
	_, err := l.Append(t.Context(), Entry{Kind: "k"})
	wantError(t, err, "row 6, which was acknowledged, is not on the disk")
	if _, err := l.Append(t.Context(), Entry{Kind: "k"}); err == nil {
		t.Error("a row was taken")
	}
	for _, err := range l.Rows(t.Context(), Filter{}) {
		wantError(t, err, "the disk failed")
	}
}

// TestRotateKilledBeforeFile: a process killed between the last checkpoint of a file and its copy beside the log
// leaves a usable log.
func TestRotateKilledBeforeFile(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	fill(t, l, 237)
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path + "-checkpoint")
	if err == nil {
		fill(t, l, 3)
		_, err = l.Rotate(t.Context())
	}
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"-checkpoint", before, 0o600); err != nil {
		t.Fatal(err)
	}
	l = openSigned(t, path, signing(100))
	fill(t, l, 5)
	_, err = l.Rotate(t.Context())
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, VerifyOptions{Keys: keys('a')}); r.Bad != nil || r.Unsigned != 0 || len(r.Files) != 3 {
		t.Errorf("%+v, bad %v", r, r.Bad)
	}
}

// TestSignsClosedFileLate: a process that signs a closed file after others have signed the next one does not
// mistake that for an older copy, and its signature does not replace the newer checkpoint.
func TestSignsClosedFileLate(t *testing.T) {
	for _, known := range []bool{false, true} {
		path := logPath(t)
		other := openSigned(t, path, signing(1000))
		fill(t, other, 3)
		late := openLog(t, path).active.Load()
		s := &signer{Signing: signing(1000)}
		if known {
			if _, err := s.checkpoint(late); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := other.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		fill(t, other, 3)
		want, err := other.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.checkpoint(late); err != nil {
			t.Errorf("a closed file can't be signed: %v", err)
		}
		c := checkpoint.Head{Origin: s.origin, Size: s.tree.Size, Root: s.tree.Root()}
		note, err := c.Sign(seeded('a'))
		if err == nil {
			err = s.storeCheckpoint(t.Context(), late, c, note) // made before the other process continued
		}
		got, readErr := ReadCheckpoint(path + "-checkpoint")
		if err != nil || readErr != nil || string(got) != string(want) {
			t.Errorf("the newest checkpoint is %s, want %s: %v, %v", got, want, err, readErr)
		}
		s.close()
	}
}

// TestVerifySwappedFiles: a file in place of another one is noticed, and not skipped.
func TestVerifySwappedFiles(t *testing.T) {
	path, _ := rotated(t)
	second := fileName(path, 2)
	for _, move := range [][2]string{{path, path + ".x"}, {second, path}, {path + ".x", second}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	if r := verify(t, path, VerifyOptions{Keys: keys('a')}); r.Bad == nil {
		t.Errorf("the log is taken as good: %+v", r)
	}
}

// TestGoesOnAfterOthersPruned: a process that was idle, while others rotated the log and deleted its file and the
// next ones, continues in the first remaining file.
func TestGoesOnAfterOthersPruned(t *testing.T) {
	path := logPath(t)
	idle := openSigned(t, path, signing(1000))
	fill(t, idle, 3)
	reader := openLog(t, path)
	other := openSigned(t, path, signing(1000))
	for range 3 {
		fill(t, other, 3)
		if _, err := other.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if deleted, err := other.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || len(deleted) != 3 {
		t.Fatal(deleted, err)
	}
	rows, err := idle.Append(t.Context(), Entry{Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	all := collect(t, reader, Filter{})
	if last := all[len(all)-1]; last.Seq != rows[0].Seq || last.Hash != rows[0].Hash {
		t.Errorf("the last row is %+v, want %+v", last, rows[0])
	}
	if r := verify(t, path, VerifyOptions{Keys: keys('a')}); r.Bad != nil {
		t.Errorf("%+v", r.Bad)
	}
}
