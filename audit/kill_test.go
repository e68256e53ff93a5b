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

// killer starts a child and kills it at a random time after its first line, so that its start-up time is not part
// of the test. It returns the child's output.
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

// lasts returns one and a half times the time from a child's first line to its end.
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

// TestKillSigned kills processes that append and sign at random moments. No acknowledged row is lost, and chain,
// receipts and checkpoints are valid.
func TestKillSigned(t *testing.T) {
	const logs = 4 // at the same time
	kills := hosttest.Rounds(20, 250)
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
	for _, row := range collect(t, l, Filter{}) {
		got[fmt.Sprint(row.Seq, " ", row.Hash)] = true
	}
	for ack := range promised {
		if !got[ack] {
			t.Fatalf("the log has lost acknowledged row %s", ack)
		}
	}
}
