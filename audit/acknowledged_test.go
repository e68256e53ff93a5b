package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// killWriter makes another process append to a log, kills it after a number of acknowledged rows, and returns the
// last one.
func killWriter(t *testing.T, path string, rows int) rowPosition {
	t.Helper()
	cmd := command(t, "write", path, 1, 1_000_000)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for n := 0; n < rows && in.Scan(); n++ {
		if strings.HasPrefix(in.Text(), "error") {
			t.Fatal(in.Text())
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	last, err := lastAcknowledged(acknowledgedPath(path))
	if err != nil || last.seq < int64(rows) {
		t.Fatalf("row %d is acknowledged, of %d: %v", last.seq, rows, err)
	}
	return last
}

// TestCutAfterKill: rows of a killed writer are missed if its -wal file is cut, damaged or deleted before the next
// process opens the log: that process records the loss in a row, once, and continues.
func TestCutAfterKill(t *testing.T) {
	for name, damage := range map[string]func(wal string, size int64) error{
		"cut":     func(wal string, size int64) error { return os.Truncate(wal, size/2) },
		"deleted": func(wal string, _ int64) error { return os.Remove(wal) },
		"damaged": func(wal string, size int64) error {
			f, err := os.OpenFile(wal, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, 100), size/2)
			return err
		},
	} {
		for number := 1; number <= 2; number++ {
			t.Run(name+" in file "+string(rune('0'+number)), func(t *testing.T) {
				path := logPath(t)
				l := openSigned(t, path, signing(0))
				fill(t, l, 10)
				if number == 2 {
					if _, err := l.Rotate(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				acked := killWriter(t, path, 60)
				wal := fileName(path, number) + "-wal"
				frames, err := os.ReadFile(wal)
				if err == nil {
					err = damage(wal, int64(len(bytes.TrimRight(frames, "\x00")))) // the rest was preallocated
				}
				if err != nil {
					t.Fatal(err)
				}

				before := verify(t, path, VerifyOptions{Keys: keys('a')})
				if before.Bad == nil || before.Bad.Seq != before.Rows+1 || !strings.Contains(before.Bad.Why, "which were acknowledged") {
					t.Fatalf("verified: %+v, bad %+v", before, before.Bad)
				}
				var logged bytes.Buffer
				s := signing(0)
				s.Log = slog.New(slog.NewTextHandler(&logged, nil))
				for range 2 {
					l = openSigned(t, path, s)
					fill(t, l, 1)
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				l = openLog(t, path)
				rows := collect(t, l, Filter{Kinds: []string{lostKind}})
				if len(rows) != 1 || strings.Count(logged.String(), "has lost rows that were acknowledged") != 1 {
					t.Fatalf("%d rows say so, and the server's log is %s", len(rows), &logged)
				}
				var got loss
				if err := json.Unmarshal(rows[0].Data, &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(loss{before.Rows + 1, acked.seq, got.Since, acked.time}, got); diff != "" || got.Since.IsZero() {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
				after := verify(t, path, VerifyOptions{Keys: keys('a')})
				if after.Bad != nil || !strings.Contains(strings.Join(after.Remarks, "\n"), "which were acknowledged, were lost") {
					t.Errorf("afterwards: %+v, bad %+v", after, after.Bad)
				}
			})
		}
	}
}

// TestAcknowledgedBefore: the leftovers of a power failure (an older file, a partly written slot, or no file) lose
// no row.
func TestAcknowledgedBefore(t *testing.T) {
	path := logPath(t)
	fill(t, openLog(t, path), 5)
	older, err := os.ReadFile(acknowledgedPath(path))
	if err != nil {
		t.Fatal(err)
	}
	acked := killWriter(t, path, 80)
	newest, err := os.ReadFile(acknowledgedPath(path))
	if err != nil {
		t.Fatal(err)
	}
	torn := bytes.Clone(newest)
	clear(torn[acked.seq%slots*slotSize+slotSize/2:][:slotSize/2])
	for name, content := range map[string][]byte{"newest": newest, "older": older, "torn": torn, "empty": {}, "cut": newest[:100],
		"none": nil} {
		err := os.WriteFile(acknowledgedPath(path), content, 0o600)
		if content == nil {
			err = os.Remove(acknowledgedPath(path))
		}
		if err != nil {
			t.Fatal(err)
		}
		if last, err := lastAcknowledged(acknowledgedPath(path)); err != nil || (last == acked) != (name == "newest") {
			t.Errorf("%s: %+v, %v", name, last, err)
		}
		if r := verify(t, path, VerifyOptions{}); r.Bad != nil || r.Rows < acked.seq {
			t.Errorf("%s: %+v", name, r.Bad)
		}
		l := openSigned(t, path, signing(0))
		if rows := collect(t, l, Filter{Kinds: []string{lostKind}}); len(rows) != 0 {
			t.Errorf("%s: %v", name, rows)
		}
		l.Close()
	}
}

// TestAcknowledgedIsAnother: a row with another hash in place of an acknowledged one is another row.
func TestAcknowledgedIsAnother(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path)
	fill(t, l, 5)
	l.Close()
	acked, err := lastAcknowledged(acknowledgedPath(path))
	if err != nil || acked.seq != 5 {
		t.Fatal(acked, err)
	}
	acked.hash[0] ^= 1
	if err := os.WriteFile(acknowledgedPath(path), acked.slot(), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, VerifyOptions{}); r.Bad == nil || r.Bad.Seq != 1 ||
		!strings.Contains(r.Bad.Why, "up to row 5, which is not the one") {
		t.Errorf("%+v, bad %+v", r, r.Bad)
	}
	openSigned(t, path, signing(0)).Close()
	if r := verify(t, path, VerifyOptions{Keys: keys('a')}); r.Bad != nil || len(r.Remarks) == 0 {
		t.Errorf("%+v, bad %+v", r, r.Bad)
	}
}

// TestAcknowledgedByMany: of several writers, the last row of the log counts, in whatever order they write.
func TestAcknowledgedByMany(t *testing.T) {
	path := logPath(t)
	a, b := openLog(t, path), openLog(t, path)
	fill(t, a, 3)
	late := a.active.Load().disk.last.Load()
	fill(t, b, 3)
	a.active.Load().disk.writeAcknowledged(acknowledgedPath(path), late)
	if acked, err := lastAcknowledged(acknowledgedPath(path)); err != nil || acked.seq != 6 {
		t.Error(acked, err)
	}
}

// TestLinksBesideTheLog: a link in place of a file beside the log makes no process write to its target.
func TestLinksBesideTheLog(t *testing.T) {
	if statefile.NoLink == 0 {
		t.Skip("links are followed here")
	}
	for _, name := range []string{acknowledgedPath("log"), "log-owed"} {
		dir := t.TempDir()
		target := filepath.Join(dir, "target")
		if err := errors.Join(os.WriteFile(target, []byte("theirs"), 0o600), os.Symlink(target, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		l := openSigned(t, filepath.Join(dir, "log"), signing(10))
		fill(t, l, 3)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(target); string(got) != "theirs" {
			t.Errorf("%s: the file that it leads to has %q, %v", name, got, err)
		}
	}
	link := filepath.Join(t.TempDir(), "lock")
	if err := os.Symlink(link+"-made", link); err != nil {
		t.Fatal(err)
	}
	if f, err := statefile.LockFile(t.Context(), link, false, 0); err == nil {
		t.Error("a link was locked, as", f.Name())
	}
}

// TestAcknowledgedOnDisk: a row without a waiting caller is acknowledged in the file when it is on the disk, and
// not before.
func TestAcknowledgedOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, logPath(t))
		fill(t, l, 1)
		if _, err := l.Append(t.Context(), Entry{Kind: "k", Soon: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if acked, err := lastAcknowledged(l.acknowledgedPath()); err != nil || acked.seq != 1 {
			t.Error("before:", acked, err)
		}
		time.Sleep(2 * flushDelay)
		synctest.Wait()
		if acked, err := lastAcknowledged(l.acknowledgedPath()); err != nil || acked.seq != 2 {
			t.Error("after:", acked, err)
		}
		l.Close()
	})
}
