package audit

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestLatestIsNewer has another process append and sign after this one has read the log's length, and before it
// reads the file beside the log: that is not an older copy.
func TestLatestIsNewer(t *testing.T) {
	path := logPath(t)
	other := openSigned(t, path, signing(100))
	fill(t, other, 3)
	if _, err := other.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, path)
	s := &signer{Signing: signing(100)}
	defer s.close()
	if err := s.connect(t.Context(), l.active.Load()); err != nil {
		t.Fatal(err)
	}
	head, err := lastSeq(t.Context(), s.conn)
	if err != nil {
		t.Fatal(err)
	}
	_, newest, err := newestCheckpoint(t.Context(), s.conn)
	if err != nil {
		t.Fatal(err)
	}
	origin, err := readOrigin(t.Context(), s.conn)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, other, 2)
	if _, err := other.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.checkLatestFile(t.Context(), l.active.Load(), origin, head, newest); err != nil {
		t.Errorf("a false alarm: %v", err)
	}
}

// TestLatestFollowsNoLink: a file or link under the temporary name is neither followed nor kept.
func TestLatestFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "log-checkpoint"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path+".new"); err != nil {
		hosttest.SkipMissing(t, "symbolic links", err.Error())
	}
	if err := writeLatest(path, []byte("note")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("the file behind the link says %q, %v", b, err)
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("got %v, %v; want a file", info.Mode(), err)
	}
}

// TestSignedInTime: rows that keep coming are signed nevertheless, and signing is retried after a failure.
func TestSignedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := &brokenKey{Signer: seeded('a')}
		l := openSigned(t, logPath(t), Signing{Key: always(key), Every: 1 << 30})
		fill(t, l, 1)
		if _, err := l.Checkpoint(t.Context()); err != nil { // the first one does not wait
			t.Fatal(err)
		}
		start := time.Now()
		for sizes(t, l) == "1" && time.Since(start) < 2*signAtLatest {
			fill(t, l, 1)
			time.Sleep(signAfterIdle / 10)
			synctest.Wait()
		}
		if took := time.Since(start); took < signAtLatest || took > signAtLatest+signAfterIdle {
			t.Errorf("signed after %v while rows came all the time", took)
		}
		key.set(true)
		fill(t, l, 1)
		time.Sleep(signAfterIdle + retrySignAfter/2)
		synctest.Wait()
		key.set(false)
		before := sizes(t, l)
		time.Sleep(retrySignAfter)
		synctest.Wait()
		if sizes(t, l) == before {
			t.Error("after a failure, nothing was signed again")
		}
		l.Close()
	})
}

// childOnce is a short command: it opens a log that other processes are signing.
func childOnce(path string, _ []string) error {
	l, err := OpenSigned(context.Background(), path, signing(5))
	if err != nil {
		return err
	}
	if _, err := l.Append(context.Background(), Entry{Kind: "k"}); err != nil {
		return err
	}
	return l.Close()
}

// TestManyShortProcesses has many short processes sign one log, several at a time, and none sees an older copy.
func TestManyShortProcesses(t *testing.T) {
	path := logPath(t)
	n := hosttest.Rounds(60, 400)
	l := openSigned(t, path, signing(5))
	fill(t, l, 1)
	todo := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range todo {
				if out, err := command(t, "once", path).Output(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	workers.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wantSigned(t, path, int64(n+1), 'a')
}
