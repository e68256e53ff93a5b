package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestAppend(t *testing.T) {
	l := openLog(t, logPath(t))
	before := time.Now()
	got, err := l.Append(t.Context(),
		Entry{Kind: "execution.started", Run: "r1", Namespace: "team-a", Data: map[string]any{"b": 1, "a": "<&>"}},
		Entry{Kind: "execution.completed", Run: "r1", Namespace: "team-a"},
		Entry{Kind: "weird\x00\xff", Run: "nul\x00in it", Namespace: "'; DROP TABLE audit; --", Data: json.RawMessage("{ \"x\": \"\xff\" }")},
	)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, collect(t, l, Filter{})); diff != "" {
		t.Errorf("what Append returned (-) is not what the log holds (+):\n%s", diff)
	}
	for i, want := range []Row{
		{Seq: 1, Kind: "execution.started", Run: "r1", Namespace: "team-a", Data: json.RawMessage(`{"a":"\u003c\u0026\u003e","b":1}`)},
		{Seq: 2, Kind: "execution.completed", Run: "r1", Namespace: "team-a", Data: json.RawMessage(`{}`)},
		{Seq: 3, Kind: "weird\x00\uFFFD", Run: "nul\x00in it", Namespace: "'; DROP TABLE audit; --", Data: json.RawMessage("{\"x\":\"\uFFFD\"}")},
	} {
		g := got[i]
		if g.Time.Before(before.Add(-time.Second)) || g.Time.After(time.Now()) || g.Time.Location() != time.UTC {
			t.Errorf("row %d has time %v", g.Seq, g.Time)
		}
		want.Time, want.Prev, want.Hash = g.Time, strings.Repeat("0", 64), g.Hash
		if i > 0 {
			want.Prev = got[i-1].Hash
		}
		if diff := cmp.Diff(want, g); diff != "" {
			t.Errorf("row %d: want (-), got (+):\n%s", i+1, diff)
		}
	}
	wantSound(t, l, 3)
}

func TestAppendRefuses(t *testing.T) {
	l := openLog(t, logPath(t))
	for name, test := range map[string]struct {
		entry Entry
		want  string
	}{
		"no kind":     {Entry{Data: map[string]int{}}, "no kind"},
		"a list":      {Entry{Kind: "k", Data: []int{1}}, "not a JSON object"},
		"a null":      {Entry{Kind: "k", Data: (*Entry)(nil)}, "not a JSON object"},
		"a function":  {Entry{Kind: "k", Data: func() {}}, "unsupported type"},
		"broken JSON": {Entry{Kind: "k", Data: json.RawMessage(`{"a":`)}, "unexpected end"},
		"too large":   {Entry{Kind: "k", Data: map[string]string{"x": strings.Repeat("y", pack.MaxData)}}, "1048576 is the limit"},
	} {
		_, err := l.Append(t.Context(), Entry{Kind: "good"}, test.entry)
		t.Run(name, func(t *testing.T) { wantError(t, err, test.want) })
	}
	if rows, err := l.Append(t.Context()); err != nil || len(rows) != 0 {
		t.Errorf("nothing to append: got %v, %v", rows, err)
	}
	wantSound(t, l, 0) // all or none
}

// TestAppendIsSynchronous checks which rows wait for the disk, and how a failed one is reported: no test can pull
// the plug.
func TestAppendIsSynchronous(t *testing.T) {
	l := openLog(t, logPath(t))
	asked, disk := make(chan struct{}, 8), make(chan error)
	gone := errors.New("the disk is gone")
	var failing, sound atomic.Bool
	l.sync = func(f *os.File) error {
		if failing.Load() {
			return gone
		} else if sound.Load() {
			return nil
		}
		if f.Name() != l.path+"-wal" {
			t.Errorf("%s is put on the disk", f.Name())
		}
		asked <- struct{}{}
		return <-disk
	}
	var done atomic.Bool
	appendOne := func(kind string, soon bool) chan error {
		answer := make(chan error, 1)
		go func() {
			_, err := l.Append(context.Background(), Entry{Kind: kind, Soon: soon})
			done.Store(true)
			answer <- err
		}()
		return answer
	}
	if err := <-appendOne("soon", true); err != nil { // before the disk's answer
		t.Fatal(err)
	}
	<-asked // nevertheless
	done.Store(false)
	answer := appendOne("durable", false)
	disk <- nil // for the first append
	<-asked
	if done.Load() {
		t.Error("a durable row was returned before it was on the disk")
	}
	failing.Store(true)
	disk <- gone
	if err := <-answer; err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("got %v from a disk that fails", err)
	}
	for _, soon := range []bool{true, false} {
		if err := <-appendOne("late", soon); err == nil {
			t.Error("a row was taken after the disk had failed")
		}
	}
	if err := l.Writable(); err == nil || !strings.Contains(err.Error(), "it is tried again each second") {
		t.Errorf("writable: %v", err)
	}
	sound.Store(true)
	failing.Store(false)
	hosttest.Until(t, "the log is written again", func() bool { return l.Writable() == nil })
	fill(t, l, 1)
	wantSound(t, l, 3)
}

// TestAppendWhileDiskIsSlow: a flush does not block Soon appends, and the next flush covers all rows written
// meanwhile.
func TestAppendWhileDiskIsSlow(t *testing.T) {
	l := openLog(t, logPath(t))
	fill(t, l, 1)
	before := l.active.Load().disk.flushes
	asked, disk := make(chan struct{}, 8), make(chan error)
	l.sync = func(*os.File) error {
		asked <- struct{}{}
		return <-disk
	}
	var returned atomic.Int32
	appendOne := func(soon bool) {
		go func() {
			if _, err := l.Append(context.Background(), Entry{Kind: "k", Soon: soon}); err != nil {
				t.Error(err)
			}
			returned.Add(1)
		}()
	}
	appendOne(false)
	<-asked
	appendOne(true)
	hosttest.Until(t, "a row that is to be there soon is returned", func() bool { return returned.Load() == 1 })
	appendOne(false)
	hosttest.Until(t, "another is written", func() bool { return l.active.Load().disk.commits.Load() == 4 })
	disk <- nil
	<-asked
	disk <- nil
	hosttest.Until(t, "all are on the disk", func() bool { return returned.Load() == 3 })
	if got := l.active.Load().disk.flushes - before; got != 2 {
		t.Errorf("the disk was waited for %d times", got)
	}
	wantSound(t, l, 4)
}

// TestAppendWaitsForDiskOnce: a short run flushes once: the flush of its end covers its start.
func TestAppendWaitsForDiskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, logPath(t))
		var asked int // under writeMu
		l.sync = func(*os.File) error { asked++; return nil }
		if _, err := l.Append(t.Context(), Entry{Kind: "start", Soon: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if _, err := l.Append(t.Context(), Entry{Kind: "end"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if asked != 1 {
			t.Errorf("a run waited %d times for the disk", asked)
		}
		l.Close()
	})
}

// TestAppendCancelled has callers give up at all moments. Each answer, written or not, must be true.
func TestAppendCancelled(t *testing.T) {
	l := openLog(t, logPath(t))
	var mu sync.Mutex
	want, gaveUp := map[string]bool{}, 0
	var g sync.WaitGroup
	for w := range 16 {
		g.Go(func() {
			for i := range 200 {
				run := fmt.Sprintf("%d-%d", w, i)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(1000))*time.Microsecond)
				if i%20 == 0 { // otherwise a slow disk would complete none
					ctx = context.Background()
				}
				_, err := l.Append(ctx, Entry{Kind: "k", Run: run})
				cancel()
				mu.Lock()
				switch {
				case err == nil:
					want[run] = true
				case errors.Is(err, context.DeadlineExceeded):
					gaveUp++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	g.Wait()
	got := map[string]bool{}
	for _, r := range collect(t, l, Filter{}) {
		got[r.Run] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("acknowledged rows (-), rows in the log (+):\n%s", diff)
	}
	if len(want) == 0 || gaveUp == 0 {
		t.Errorf("%d written and %d given up: that tests nothing", len(want), gaveUp)
	}
	wantSound(t, l, int64(len(want)))
}

// TestAppendCancelledBehindLock: a caller that gives up while another process holds the lock returns, and its rows
// do not appear later.
func TestAppendCancelledBehindLock(t *testing.T) {
	l := openLog(t, logPath(t))
	release := holdLock(t, l.path, "BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Append(ctx, Entry{Kind: "given up"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
	release()
	fill(t, l, 1)
	wantSound(t, l, 1)
}

// TestAppendToDamaged: no row is chained to an invalid one, and the failure leaves no lock behind.
func TestAppendToDamaged(t *testing.T) {
	l := openLog(t, logPath(t))
	fill(t, l, 10)
	tamper(t, l.path, append(dropTriggers, "UPDATE audit SET hash = x'00' WHERE seq = 10")...)
	for range 2 {
		_, err := l.Append(t.Context(), Entry{Kind: "k"})
		wantError(t, err, "row 10", "tampered", "audit verify")
	}
	tamper(t, l.path, "BEGIN IMMEDIATE", "ROLLBACK")
}

func TestClose(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path)
	var acked atomic.Int64
	var g sync.WaitGroup
	for range 32 {
		g.Go(func() {
			for {
				if _, err := l.Append(context.Background(), Entry{Kind: "k"}); err != nil {
					if !errors.Is(err, errClosed) {
						t.Error(err)
					}
					return
				}
				acked.Add(1)
			}
		})
	}
	hosttest.Until(t, "rows are appended", func() bool { return acked.Load() > 100 })
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	g.Wait()
	wantSound(t, openLog(t, path), acked.Load())
}

// TestClockJumps: Seq orders the rows even if the clock does not.
func TestClockJumps(t *testing.T) {
	l := openLog(t, logPath(t))
	now := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	times := []time.Time{now, now.Add(-40 * 365 * 24 * time.Hour), now.Add(time.Hour), time.Date(1969, 1, 1, 0, 0, 0, 1, time.UTC)}
	for _, at := range times {
		l.now = func() time.Time { return at }
		fill(t, l, 1)
	}
	rows := collect(t, l, Filter{})
	for i, r := range rows {
		if r.Seq != int64(i+1) || !r.Time.Equal(times[i]) {
			t.Errorf("row %d at %v, want row %d at %v", r.Seq, r.Time, i+1, times[i])
		}
	}
	wantSound(t, l, int64(len(times)))
}
