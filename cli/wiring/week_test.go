package wiring

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	auditreport "github.com/sandboxmcp/sandboxmcp/audit/report"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// A week of a team, on a fake clock: a server runs from nine to five, rotates the log each day, and deletes files older
// than three days; single commands write beside it and at night, and some are killed; the key is rotated on the third
// day, and the old one revoked on the fifth. Each evening the log is verified and reported; its size stays that of
// three days.
func TestWeek(t *testing.T) {
	const days, perHour = 7, 8
	synctest.Test(t, func(t *testing.T) {
		w := newWeek(t)
		sizes, rows := make([]int64, days), int64(0)
		var old string
		for day := range days {
			for hour := range 24 {
				switch hour {
				case 9:
					w.start(t)
				case 17:
					time.Sleep(10 * time.Second) // an idle server signs within five
					r := w.verify(t, day)
					sizes[day], rows = logSize(t, w.cfg.StateDir), r.Rows+r.Absent
					w.stop(t)
				}
				if w.log != nil {
					w.runTeam(t, perHour)
				}
				if hour%4 == 0 {
					w.runCommand(t, hour%8 == 0)
				}
				time.Sleep(time.Hour - time.Since(w.began)%time.Hour)
			}
			switch day {
			case 2:
				key, err := w.keys.Current(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				old = key.ID()
				if _, _, err := w.keys.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			case 4:
				if _, err := w.keys.Revoke(t.Context(), old, time.Now(), "the week says so"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if want := int64(days * (8*perHour + 6) * 2 * 9 / 10); rows < want {
			t.Errorf("%d rows in all, want at least %d", rows, want)
		}
		if bound := sizes[3] * 5 / 4; sizes[days-1] > bound {
			t.Errorf("the log takes %d bytes by day, and may take %d after three days", sizes, bound)
		}
		if text := w.logged.String(); strings.Contains(text, "level=ERROR") || strings.Count(text, "was closed") < days-1 ||
			strings.Count(text, "was deleted") < days-4 {
			t.Errorf("the server's log is:\n%s", text)
		}
	})
}

type week struct {
	cfg      config.Config
	keys     *signer.Keys
	log      *pendingLog // of the server; nil if none runs
	rotating func()      // stops it
	logged   bytes.Buffer
	began    time.Time
}

func newWeek(t *testing.T) *week {
	dir := t.TempDir()
	w := &week{cfg: config.Config{StateDir: dir, SQLitePath: filepath.Join(dir, "sandboxmcp.db"),
		Sections: config.Sections{Audit: config.Audit{RotateDays: 1, KeepDays: 3}}}}
	var err error
	if w.keys, err = Keys(w.cfg); err != nil {
		t.Fatal(err)
	}
	w.began = time.Now()
	return w
}

func (w *week) start(t *testing.T) {
	logger := slog.New(slog.NewTextHandler(&w.logged, nil))
	w.log = openInBackground(t.Context(), w.cfg, w.keys, logger, nil)
	if _, err := w.log.waitOpened(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.rotating = (&Parts{Log: w.log}).StartRotating(t.Context(), w.cfg.Audit, logger)
}

func (w *week) stop(t *testing.T) {
	w.rotating()
	if err := w.log.log.Close(); err != nil {
		t.Error(err)
	}
	w.log = nil
}

// recorder appends rows.
type recorder interface {
	Append(context.Context, ...audit.Entry) ([]audit.Row, error)
}

// addRun appends the rows of one run.
func addRun(t *testing.T, log recorder, n uint64) {
	random := rand.New(rand.NewPCG(n, 1))
	id, receipt := fmt.Sprintf("01M%023d", n), make([]byte, 900)
	for i := range receipt {
		receipt[i] = "0123456789abcdef"[random.IntN(16)]
	}
	data := map[string]any{"language": "python", "code_sha256": string(receipt[:64]), "ended": "ok", "wall_ms": random.IntN(9000)}
	for _, e := range []audit.Entry{{Kind: event.ExecutionStarted}, {Kind: event.ExecutionCompleted, Receipt: receipt}} {
		e.Run, e.Namespace, e.Data = id, "default", data
		if _, err := log.Append(t.Context(), e); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(random.IntN(60)) * time.Second)
	}
}

// runTeam is an hour of four people's agents on the server.
func (w *week) runTeam(t *testing.T, runs int) {
	var people sync.WaitGroup
	for person := range 4 {
		people.Go(func() {
			for n := range runs / 4 {
				addRun(t, w.log, uint64(time.Since(w.began))+uint64(person*1000+n))
			}
		})
	}
	people.Wait()
}

// runCommand is a run of a single command. A killed one leaves its rows unsigned.
func (w *week) runCommand(t *testing.T, killed bool) {
	open := func() (*audit.Log, error) { return openSigned(t.Context(), w.cfg, w.keys, audit.Signing{}) }
	if killed {
		open = func() (*audit.Log, error) { return audit.Open(t.Context(), w.cfg.SQLitePath) }
	}
	log, err := open()
	if err != nil {
		t.Fatal(err)
	}
	addRun(t, log, uint64(time.Since(w.began)))
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// verify checks the log as audit verify and audit report do.
func (w *week) verify(t *testing.T, day int) audit.Report {
	trust, err := w.keys.Trust()
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.log.log.Verify(t.Context(), audit.VerifyOptions{Keys: CheckpointKeys(trust)})
	if err != nil || r.Bad != nil || r.Unsigned != 0 || r.Checkpoint == nil || (r.Absent > 0) != (day > 3) {
		t.Errorf("day %d: %+v, bad %v, %v", day, r, r.Bad, err)
	}
	n := int64(0)
	rows := func(yield func(audit.Row, error) bool) {
		for r, err := range w.log.log.Rows(t.Context(), audit.Filter{}) {
			if n++; !yield(r, err) {
				return
			}
		}
	}
	summary, err := auditreport.Collect(iter.Seq2[audit.Row, error](rows))
	if err == nil {
		err = summary.Write(io.Discard, auditreport.About{Log: auditreport.Log{Path: w.cfg.SQLitePath, Checked: true, Report: r}})
	}
	if err != nil || n != r.Rows {
		t.Errorf("day %d: %d rows are reported, and %d verified: %v", day, n, r.Rows, err)
	}
	return r
}

// logSize returns the size of the log's files, in bytes, without those of a fixed size or at most 4 MiB (-reserve, -owed,
// -wal).
func logSize(t *testing.T, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(filepath.Base(path), "-") && !strings.HasSuffix(path, "-checkpoint") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
