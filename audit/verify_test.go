package audit

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

var dropTriggers = []string{"DROP TRIGGER audit_no_update", "DROP TRIGGER audit_no_delete", "DROP TRIGGER audit_at_end"}

// rehashed returns an SQL statement that changes row r and gives it the matching hash.
func rehashed(r Row) string {
	r.Data = []byte(`{"n":0}`)
	hash := hashRow(r)
	return fmt.Sprintf("UPDATE audit SET data = %s, hash = x'%x' WHERE seq = %d", repacked(string(r.Data), nil), hash, r.Seq)
}

// TestVerifyTampered has changes that the owner of the file can make. Verify must name the first bad row each time.
func TestVerifyTampered(t *testing.T) {
	const swap = "UPDATE audit SET seq = -1 WHERE seq = %d; UPDATE audit SET seq = %[1]d WHERE seq = %[2]d; UPDATE audit SET seq = %[2]d " +
		"WHERE seq = -1"
	original := logPath(t)
	l := openLog(t, original)
	rows := fill(t, l, 10)
	l.Close()
	for _, test := range []struct {
		name string
		sql  string
		seq  int64
		why  string
	}{
		{"data edited", "UPDATE audit SET data = " + repacked(`{"n":6}`, nil) + " WHERE seq = 5", 5, "edited"},
		{"a blank put into the data", "UPDATE audit SET data = " + repacked(`{"n": 5}`, nil) + " WHERE seq = 5", 5, "edited"},
		{"first edited", `UPDATE audit SET kind = 'x' WHERE seq = 1`, 1, "edited"},
		{"last edited", `UPDATE audit SET kind = 'x' WHERE seq = 10`, 10, "edited"},
		{"time edited", `UPDATE audit SET time = time + 1 WHERE seq = 5`, 5, "edited"},
		{"run edited", `UPDATE audit SET run = 'r4' WHERE seq = 5`, 5, "edited"},
		{"namespace edited", `UPDATE audit SET namespace = '' WHERE seq = 5`, 5, "edited"},
		{"text moved to the next column", `UPDATE audit SET kind = kind || run, run = '' WHERE seq = 5`, 5, "edited"},
		{"prev edited", `UPDATE audit SET prev = zeroblob(32) WHERE seq = 5`, 5, "edited"},
		{"prev emptied", `UPDATE audit SET prev = x'' WHERE seq = 5`, 5, "edited"},
		{"hash edited", `UPDATE audit SET hash = zeroblob(32) WHERE seq = 5`, 5, "edited"},
		{"hash cut", `UPDATE audit SET hash = substr(hash, 1, 31) WHERE seq = 5`, 5, "edited"},
		{"several edited", `UPDATE audit SET namespace = 'x' WHERE seq IN (3, 7, 9)`, 3, "edited"},
		{"deleted", `DELETE FROM audit WHERE seq = 5`, 5, "missing"},
		{"several deleted", `DELETE FROM audit WHERE seq BETWEEN 4 AND 6`, 4, "missing: the row after row 3 is row 7"},
		{"first deleted", `DELETE FROM audit WHERE seq = 1`, 1, "missing"},
		{"deleted and closed up", `DELETE FROM audit WHERE seq = 5; UPDATE audit SET seq = seq - 1 WHERE seq > 5`, 4,
			"rows behind it were taken out: row 5 was chained to another"},
		{"neighbours swapped", fmt.Sprintf(swap, 5, 6), 5, "moved here: it follows on what is now row 6"},
		{"far ones swapped", fmt.Sprintf(swap, 3, 9), 3, "moved here: it follows on what is now row 8"},
		{"first and last swapped", fmt.Sprintf(swap, 1, 10), 1, "moved here: it follows on what is now row 9"},
		{"last moved away", `UPDATE audit SET seq = 1000 WHERE seq = 10`, 10, "missing"},
		{"copied to the end", `INSERT INTO audit SELECT 11, time, kind, run, namespace, prev, hash, receipt, data FROM audit WHERE seq = 5`, 11,
			"moved here"},
		{"put before the first", `INSERT INTO audit SELECT -7, time, kind, run, namespace, prev, hash, receipt, data FROM audit WHERE seq = 1`,
			-7, "precedes the first"},
		{"put at the lowest number", `INSERT INTO audit SELECT -9223372036854775808, time, kind, run, namespace, prev, hash, receipt, data FROM audit WHERE seq = 1`, -9223372036854775808, "precedes the first"},
		{"edited and rehashed", rehashed(rows[4]), 5, "replaced, or rows behind it were taken out: row 6 was chained to another"},
		{"first edited and rehashed", rehashed(rows[0]), 1, "replaced, or rows behind it were taken out: row 2 was chained to another"},
		{"last replaced by one from elsewhere", chainedElsewhere(rows[9]), 9, "replaced"},
		{"the only row from elsewhere", chainedElsewhere(rows[0]) + "; DELETE FROM audit WHERE seq > 1", 1,
			"replaced: it follows on a row that is not there"},
		{"not even the right type", `CREATE TABLE t AS SELECT * FROM audit; DROP TABLE audit; ALTER TABLE t RENAME TO audit; UPDATE audit SET time = 'noon' WHERE seq = 5`, 5, "cannot be read"},
		{"made null", `CREATE TABLE t AS SELECT * FROM audit; DROP TABLE audit; ALTER TABLE t RENAME TO audit; UPDATE audit SET kind = NULL WHERE seq = 5`, 5, "cannot be read"},
		{"table dropped", `DROP TABLE audit`, 1, "cannot be read"},
		{"triggers dropped", ``, 0, "the trigger audit_at_end was removed"},
		{"one trigger disarmed", triggers("audit_no_delete", "SELECT 1"), 0, "the trigger audit_no_delete was changed"},
		{"a trigger added", triggers("", "") + `; CREATE TRIGGER quiet BEFORE INSERT ON AUDIT WHEN NEW.run = 'evil' BEGIN SELECT raise(IGNORE); END`, 0, "the trigger quiet was added"},
		{"an index that hides rows", triggers("", "") + `; DROP INDEX audit_run; CREATE INDEX audit_run ON audit (run) WHERE run <> 'r5'`, 0,
			"the index audit_run was changed"},
		{"an index that hides rows and does not look so", triggers("", "") +
			`; DROP INDEX audit_run; CREATE INDEX audit_run ON audit (run) WHERE run <> 'r5'; PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE INDEX audit_run ON audit (run)' WHERE name = 'audit_run'`, 0, "index audit_run"},
		{"a view over the table", `ALTER TABLE audit RENAME TO hidden; CREATE VIEW audit AS SELECT * FROM hidden`, 0,
			"the index audit_kind was changed"},
	} {
		check := func(t *testing.T, statements ...string) {
			path := copyLog(t, original)
			tamper(t, path, append(dropTriggers, statements...)...)
			report, err := openLog(t, path).Verify(t.Context(), VerifyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if report.Bad == nil || report.Bad.Seq != test.seq || !strings.Contains(report.Bad.Why, test.why) {
				t.Errorf("got %+v, want row %d and %q", report.Bad, test.seq, test.why)
			}
			if good := max(test.seq, 1) - 1; test.seq != 0 && (report.Rows != good || good > 0 && report.Head != rows[good-1].Hash) {
				t.Errorf("called %d rows good, up to head %s; want %d", report.Rows, report.Head, good)
			}
		}
		t.Run(test.name, func(t *testing.T) { check(t, test.sql) })
		if test.seq != 0 && !strings.Contains(test.sql, "DROP TABLE") { // tables that look untouched are read in another way
			t.Run(test.name+", triggers made again", func(t *testing.T) { check(t, test.sql, triggers("", "")) })
		}
	}
}

// chainedElsewhere replaces r by a row that is valid in itself but belongs to another chain.
func chainedElsewhere(r Row) string {
	r.Prev = strings.Repeat("5a", hashSize)
	hash := hashRow(r)
	return fmt.Sprintf("UPDATE audit SET prev = x'%s', hash = x'%x' WHERE seq = %d", r.Prev, hash, r.Seq)
}

// triggers recreates the dropped triggers of the rows, except for one, which gets another body.
func triggers(other, body string) string {
	var made []string
	for _, s := range strings.SplitAfter(schema.Text, "END;") {
		i := strings.Index(s, "CREATE TRIGGER audit_")
		if i < 0 {
			continue
		}
		s = s[i:]
		if other != "" && strings.HasPrefix(s, "CREATE TRIGGER "+other) {
			s = s[:strings.Index(s, "SELECT raise")] + body + "; END;"
		}
		made = append(made, s)
	}
	return strings.Join(made, "\n")
}

// TestTriggersRefuse: with the triggers in place, no statement changes existing rows.
func TestTriggersRefuse(t *testing.T) {
	l := openLog(t, logPath(t))
	before := fill(t, l, 10)
	for _, s := range []string{
		"UPDATE audit SET data = x'00' WHERE seq = 5",
		"UPDATE OR REPLACE audit SET seq = 5 WHERE seq = 6",
		"UPDATE audit SET seq = 11 WHERE seq = 10",
		"DELETE FROM audit WHERE seq = 10",
		"DELETE FROM audit",
		"INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 5",
		"REPLACE INTO audit SELECT 10, 0, '', '', '', x'', x'', NULL, x''",
		"INSERT INTO audit SELECT 5, 0, '', '', '', x'', x'', NULL, x'' ON CONFLICT (seq) DO UPDATE SET data = x''",
		"INSERT INTO audit SELECT 12, 0, '', '', '', x'', x'', NULL, x''",
		"INSERT INTO audit SELECT 0, 0, '', '', '', x'', x'', NULL, x''",
	} {
		_, err := l.active.Load().db.Exec(s)
		t.Run(s, func(t *testing.T) { wantError(t, err, "append-only") })
	}
	if diff := cmp.Diff(before, collect(t, l, Filter{})); diff != "" {
		t.Errorf("before (-), after (+):\n%s", diff)
	}
	wantSound(t, l, 10)
}

// TestVerifyCutOff: a stored head reveals changes that the chain alone does not.
func TestVerifyCutOff(t *testing.T) {
	l := openLog(t, logPath(t))
	fill(t, l, 10)
	saved, err := l.Verify(t.Context(), VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tamper(t, l.path, append(dropTriggers, "DELETE FROM audit WHERE seq > 7", triggers("", ""))...)
	if err := os.Remove(l.acknowledgedPath()); err != nil { // an attacker who can delete rows can do this, too
		t.Fatal(err)
	}
	cut, err := l.Verify(t.Context(), VerifyOptions{})
	if err != nil || cut.Bad != nil {
		t.Fatal(cut.Bad, err)
	}
	if cut.Rows != 7 || cut.Head == saved.Head {
		t.Errorf("the head does not tell: %d rows, head %s; kept %d rows, head %s", cut.Rows, cut.Head, saved.Rows, saved.Head)
	}
}

// TestVerifyDamagedFile: a flipped bit or a cut anywhere in the file is noticed, or has changed no row.
func TestVerifyDamagedFile(t *testing.T) {
	original := logPath(t)
	l := openLog(t, original)
	fill(t, l, 100)
	want := collect(t, l, Filter{})
	l.Close()
	file, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	path, noticed := logPath(t), 0
	try := func(what string, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path + "-wal")
		defer os.Remove(path + "-shm")
		l, err := Open(context.Background(), path)
		if err != nil {
			noticed++
			return
		}
		defer l.Close()
		if r, err := l.Verify(t.Context(), VerifyOptions{}); err != nil || r.Bad != nil {
			noticed++
		} else if diff := cmp.Diff(want, collect(t, l, Filter{})); diff != "" {
			t.Errorf("%s went unnoticed:\n%s", what, diff)
		}
	}
	flips, cuts := hosttest.Rounds(100, 500), hosttest.Rounds(10, 50)
	for range flips {
		i := rand.IntN(len(file))
		content := append([]byte{}, file...)
		content[i] ^= 1 << rand.IntN(8)
		try(fmt.Sprint("a flipped bit in byte ", i), content)
	}
	for range cuts {
		n := rand.IntN(len(file))
		try(fmt.Sprint("a cut at byte ", n), file[:n])
	}
	t.Logf("noticed %d of %d", noticed, flips+cuts)
}

func TestVerifyEmpty(t *testing.T) {
	l := openLog(t, logPath(t))
	r, err := l.Verify(t.Context(), VerifyOptions{})
	if err != nil || r.Bad != nil || r.Rows != 0 || r.Head != hex.EncodeToString(make([]byte, hashSize)) {
		t.Errorf("got %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := l.Verify(ctx, VerifyOptions{}); err == nil || r.Bad != nil {
		t.Errorf("cancelled: got %+v, %v; want an error and no verdict", r, err)
	}
}

func copyLog(t *testing.T, from string) (to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to = logPath(t)
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
