package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestKillWhileMaking: a process that is killed while it creates the log leaves no log or a complete one, and its
// other files are removed after a minute.
func TestKillWhileMaking(t *testing.T) {
	kills, made, abandoned := hosttest.Rounds(15, 40), 0, 0
	within := lasts(t, "open", logPath(t))
	for range kills {
		path := logPath(t)
		killer(t, within, "open", path)
		if _, err := os.Stat(path); err == nil {
			made++
		}
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".new-audit-*"))
		for _, dir := range left {
			abandoned++
			ago := time.Now().Add(-time.Hour)
			if err := os.Chtimes(dir, ago, ago); err != nil {
				t.Fatal(err)
			}
		}
		l := openLog(t, path)
		fill(t, l, 1)
		wantSound(t, l, 1)
		l.Close()
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 2 {
			t.Errorf("left beside the log: %v", left)
		}
	}
	t.Logf("%d of %d had made the log before they were killed, %d left a directory", made, kills, abandoned)
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

// TestManyProcesses: processes that open a missing log and write at once make one chain, which contains each
// acknowledged row exactly once, at the reported position.
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
			path := logPath(t)
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
