package audit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func childAppend(path string, args []string) error {
	l, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	var g sync.WaitGroup
	for w := range number(args, 0) {
		g.Go(func() {
			for i := 0; ; i++ {
				rows, err := l.Append(context.Background(), Entry{Kind: "k", Run: fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)})
				if err != nil {
					fmt.Println("error:", err)
					return
				}
				fmt.Printf("%d %s\n", rows[0].Seq, rows[0].Hash) // one write(2), so no half lines
			}
		})
	}
	g.Wait()
	return nil
}

// A process that appends is killed at some moment, over and over, on one log. What it was promised
// must be there.
func TestKill(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 10
	}
	path, promised := logPath(t), 0
	var seen int64
	for range kills {
		acks := appendUntilKilled(t, path)
		l := openLog(t, path)
		got := map[string]bool{}
		for _, r := range collect(t, l, Filter{After: seen}) {
			got[fmt.Sprint(r.Seq, " ", r.Hash)] = true
		}
		for _, a := range acks {
			if !got[a] {
				t.Fatalf("the log has lost acknowledged row %s", a)
			}
		}
		promised, seen = promised+len(acks), seen+int64(len(got))
		wantSound(t, l, seen)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d rows acknowledged, %d in the log", kills, promised, seen)
	if promised == 0 {
		t.Error("no row was ever acknowledged, so nothing was tested")
	}
	// A process that was killed while it made the log leaves a folder, which is nobody's after a minute.
	ago := time.Now().Add(-time.Hour)
	abandoned, _ := filepath.Glob(filepath.Join(filepath.Dir(path), newPrefix+"*"))
	for _, dir := range abandoned {
		if err := os.Chtimes(dir, ago, ago); err != nil {
			t.Fatal(err)
		}
	}
	if err := openLog(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left beside the log: %v", left)
	}
}

func appendUntilKilled(t *testing.T, path string) (acks []string) {
	cmd := command(t, "append", path, 4)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Duration(rand.IntN(80))*time.Millisecond, func() { cmd.Process.Kill() })
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if strings.HasPrefix(line, "error") {
			t.Error(line)
		}
		if err == io.EOF {
			break
		}
		acks = append(acks, strings.TrimSpace(line))
	}
	cmd.Wait()
	return acks
}

// A process that is killed while it makes the log leaves none or a whole one.
func TestKillWhileMaking(t *testing.T) {
	made := 0
	for i := range 40 {
		path := logPath(t)
		cmd := command(t, "open", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * time.Millisecond / 2)
		cmd.Process.Kill()
		cmd.Wait()
		if _, err := os.Stat(path); err == nil {
			made++
		}
		l := openLog(t, path)
		fill(t, l, 1)
		wantSound(t, l, 1)
		l.Close()
	}
	t.Logf("%d of 40 had made the log before they were killed", made)
}

func childWrite(path string, args []string) error {
	l, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	defer l.Close()
	var g sync.WaitGroup
	for w := range number(args, 0) {
		g.Go(func() {
			for i := range number(args, 1) {
				run := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				if rows, err := l.Append(context.Background(), Entry{Kind: "k", Run: run}); err != nil {
					fmt.Println("error:", err)
				} else {
					fmt.Println(rows[0].Seq, run)
				}
			}
		})
	}
	g.Wait()
	return nil
}

func childRuns(path string, args []string) error {
	for i := range number(args, 0) {
		l, err := Open(context.Background(), path)
		if err != nil {
			return err
		}
		for _, kind := range []string{"started", "completed"} {
			run := fmt.Sprintf("%d-%d-%s", os.Getpid(), i, kind)
			rows, err := l.Append(context.Background(), Entry{Kind: kind, Run: run})
			if err != nil {
				return err
			}
			fmt.Println(rows[0].Seq, run)
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Processes that all come to a log that is not there yet and write at once make one chain, in which
// each acknowledged row stands exactly once, at the place that was told.
func TestManyProcesses(t *testing.T) {
	tests := []struct {
		name, child string
		args        []any
		each        int // rows of one process
	}{
		{"8 goroutines each", "write", []any{8, 50}, 8 * 50},
		{"open and close for each run", "runs", []any{25}, 50},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			const processes = 8
			path, start := logPath(t), time.Now()
			var acks [processes][]byte
			var g sync.WaitGroup
			for i := range processes {
				g.Go(func() {
					var err error
					if acks[i], err = command(t, test.child, path, test.args...).Output(); err != nil {
						t.Error(err)
					}
				})
			}
			g.Wait()
			t.Logf("%d rows in %v", processes*test.each, time.Since(start))

			l, got := openLog(t, path), map[string]bool{}
			for _, r := range collect(t, l, Filter{}) {
				got[fmt.Sprint(r.Seq, " ", r.Run)] = true
			}
			for _, out := range acks {
				for ack := range strings.Lines(string(out)) {
					if !got[strings.TrimSpace(ack)] {
						t.Errorf("acknowledged, but not in the log: %s", ack)
					}
				}
			}
			if len(got) != processes*test.each {
				t.Errorf("got %d rows, want %d", len(got), processes*test.each)
			}
			wantSound(t, l, int64(processes*test.each))
		})
	}
}
