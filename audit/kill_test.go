package audit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// childSign appends from some goroutines and signs every few rows; one row in five has a receipt.
func childSign(path string, args []string) error {
	l, err := OpenSigned(context.Background(), path, signing(7))
	if err != nil {
		return err
	}
	var g sync.WaitGroup
	for w := range number(args, 0) {
		g.Go(func() {
			for i := 0; ; i++ {
				e := Entry{Kind: "k", Run: fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)}
				if i%5 == 0 {
					e.Receipt = []byte(e.Run)
				}
				rows, err := l.Append(context.Background(), e)
				if err != nil {
					fmt.Println("error:", err)
					return
				}
				fmt.Printf("%d %s\n", rows[0].Seq, rows[0].Hash)
			}
		})
	}
	g.Wait()
	return nil
}

func childSeal(path string, _ []string) error {
	l, err := OpenSigned(context.Background(), path, signing(7))
	if err != nil {
		return err
	}
	for {
		fmt.Println("seals")
		if _, err := l.Append(context.Background(), Entry{Kind: "k"}, Entry{Kind: "k", Receipt: []byte("r")}); err != nil {
			return err
		}
		if _, err := l.Seal(context.Background(), time.Now().Add(time.Hour)); err != nil {
			return err
		}
	}
}

// killer starts a child and kills it after a random time from when it says its first word, so that the time
// it needs to start is not what is tested. It returns what the child said.
func killer(t *testing.T, within time.Duration, name, path string, args ...any) (lines []string) {
	t.Helper()
	cmd := command(t, name, path, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for in.Scan() {
		if lines = append(lines, in.Text()); len(lines) == 1 {
			time.AfterFunc(rand.N(within), func() { cmd.Process.Kill() })
		}
		if strings.HasPrefix(in.Text(), "error") {
			t.Error(in.Text())
		}
	}
	cmd.Wait()
	return lines
}

// lasts is half as long again as a child goes on from its first word until it ends by itself.
func lasts(t *testing.T, name, path string) time.Duration {
	t.Helper()
	cmd := command(t, name, path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 100))
	start := time.Now()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start) * 3 / 2
}

// Processes that append and sign are killed at random moments. No acknowledged row is lost, and
// chain, receipts and checkpoints hold.
func TestKillSigned(t *testing.T) {
	const logs = 4 // side by side
	kills := hosttest.Long(20, 250)
	var total sync.Map
	t.Run("logs", func(t *testing.T) {
		for i := range logs {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				path, promised := logPath(t), map[string]bool{}
				for n := range kills {
					for _, ack := range killer(t, 12*time.Millisecond, "sign", path, 3) {
						promised[ack] = true
					}
					if n%25 == 24 {
						checkPromised(t, path, promised)
					}
				}
				checkPromised(t, path, promised)
				l := openSigned(t, path, signing(7))
				rows := fill(t, l, 1)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				wantSigned(t, path, rows[0].Seq, 'a')
				total.Store(i, len(promised))
			})
		}
	})
	sum := 0
	total.Range(func(_, n any) bool { sum += n.(int); return true })
	t.Logf("%d kills, %d rows acknowledged", logs*kills, sum)
	if sum < logs*kills {
		t.Error("too few rows were acknowledged: that tests nothing")
	}
}

func checkPromised(t *testing.T, path string, promised map[string]bool) {
	t.Helper()
	l := openSigned(t, path, signing(7)) // all may have been killed before the first checkpoint
	fill(t, l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := verify(t, path, VerifyOptions{Keys: keys('a')})
	if r.Bad != nil {
		t.Fatalf("after a kill: %+v", r.Bad)
	}
	l = openLog(t, path)
	defer l.Close()
	got := map[string]bool{}
	for _, row := range collect(t, l, Filter{Sealed: true}) {
		got[fmt.Sprint(row.Seq, " ", row.Hash)] = true
	}
	for ack := range promised {
		if !got[ack] {
			t.Fatalf("the log has lost acknowledged row %s", ack)
		}
	}
}

// Killed while it seals: each row is there, in the database or in a segment, and the next Seal cleans up.
func TestKillSeal(t *testing.T) {
	kills := hosttest.Long(15, 60)
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	fillFast(t, l, 50)
	l.Close()
	var before []Row
	for range kills {
		killer(t, 40*time.Millisecond, "seal", path)
		r := verify(t, path, VerifyOptions{Keys: keys('a')})
		if r.Bad != nil || len(r.Remarks) > 0 {
			t.Fatalf("after a kill: %+v, %q", r.Bad, r.Remarks)
		}
		l := openLog(t, path)
		after := collect(t, l, Filter{Sealed: true})
		l.Close()
		if len(after) < len(before) || len(before) > 0 && !cmp.Equal(before, after[:len(before)]) {
			t.Fatalf("rows were lost: %d before, %d now", len(before), len(after))
		}
		if before = after; int64(len(after)) != r.Rows {
			t.Fatalf("%d rows are there, and Verify says %d", len(after), r.Rows)
		}
	}
	l = openSigned(t, path, signing(100))
	if _, err := l.Seal(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	segments, err := l.segments(t.Context(), l.db, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	finals := 0
	for _, f := range segmentFiles(t, path) {
		if !strings.Contains(f, tempPrefix) {
			finals++
		}
	}
	if finals != len(segments) {
		t.Errorf("%d files for %d segments", finals, len(segments))
	}
	t.Logf("%d kills, %d rows in %d segments", kills, len(before), len(segments))
}

// A segment file that a killed process left is removed only if its rows are in the database.
func TestSealLeftovers(t *testing.T) {
	path, _ := sealedLog(t)
	files := segmentFiles(t, path)
	orphan := func(path string) string {
		return strings.Replace(segmentFiles(t, path)[0], "1-00000000000000000300", "1-00000000000000000299", 1)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(orphan(path), content, 0o600); err != nil {
		t.Fatal(err)
	}
	l := openSigned(t, path, signing(100))
	_, err = l.Seal(t.Context(), time.Now().AddDate(100, 0, 0))
	wantError(t, err, "the only one that has its rows", "move it away")
	if _, err := os.Stat(orphan(path)); err != nil {
		t.Error(err)
	}
	l.Close()
	wantSigned(t, path, 1022, 'a')
}

// A segment file that does not get to its place takes no row out of the database.
func TestSealKeepsRows(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	fillFast(t, l, 500)
	if err := os.Mkdir(l.segmentDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := l.pack(t.Context(), 1, 300)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.temporary); err != nil {
		t.Fatal(err)
	}
	wantError(t, l.detach(t.Context(), p), "no such file")
	if got := collect(t, l, Filter{}); len(got) != 500 {
		t.Errorf("%d rows are left", len(got))
	}
	l.Close()
	if r := wantSigned(t, path, 500, 'a'); len(r.Segments) != 0 {
		t.Errorf("got %+v", r.Segments)
	}
}

// Processes that sign one log at once, open and close it for each run, or seal it meanwhile.
func TestManySigners(t *testing.T) {
	path := logPath(t)
	var mu sync.Mutex
	acked := 0
	var g sync.WaitGroup
	for p := range 6 {
		g.Go(func() {
			for i := range 8 {
				l, err := OpenSigned(context.Background(), path, signing(5))
				if err != nil {
					t.Error(err)
					return
				}
				for range 7 {
					if _, err := l.Append(context.Background(), Entry{Kind: "k", Run: fmt.Sprint(p), Receipt: []byte("r")}); err != nil {
						t.Error(err)
					}
				}
				if p == 0 && i%2 == 1 {
					s, err := l.Seal(context.Background(), time.Now().Add(time.Hour))
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					acked += len(s)
					mu.Unlock()
				}
				if p == 1 {
					if r, err := l.Verify(context.Background(), VerifyOptions{Keys: keys('a')}); err != nil || r.Bad != nil {
						t.Errorf("while others write: %+v, %v", r.Bad, err)
					}
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				acked += 7
				mu.Unlock()
			}
		})
	}
	g.Wait()
	wantSigned(t, path, int64(acked), 'a')
}
