package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// attackable returns a closed log as a server leaves it: with receipts, checkpoints at 822, 1022 and so on, and the
// file beside it; and checkpoints that were stored elsewhere: an old and the newest one.
func attackable(t testing.TB) (path string, rows []Row, notes [][]byte) {
	t.Helper()
	path, _ = signedLog(t)
	for range 3 {
		l := openSigned(t, path, signing(100))
		fillFast(t, l, 200)
		rows = collect(t, l, Filter{})
		note, err := l.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, note)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return path, rows, notes
}

// noTriggers returns statements that drop all triggers, and others that restore them: an attacker with write access
// would use both to leave no traces.
func noTriggers(t testing.TB) (drop, again []string) {
	t.Helper()
	made, err := schema.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, sql := range made {
		if trigger, ok := strings.CutPrefix(name, "trigger "); ok {
			drop, again = append(drop, "DROP TRIGGER "+trigger), append(again, sql)
		}
	}
	return drop, again
}

// TestAttack: the log itself, with its key, reveals each kind of tampering that leaves the triggers unchanged.
func TestAttack(t *testing.T) {
	original, rows, notes := attackable(t)
	drop, again := noTriggers(t)
	const last = 1622
	for _, test := range []struct {
		name string
		sql  string
		seq  int64
		why  string
	}{
		{"kind edited", "UPDATE audit SET kind = 'x' WHERE seq = 900", 900, "edited"},
		{"run edited", "UPDATE audit SET run = 'x' WHERE seq = 900", 900, "edited"},
		{"namespace edited", "UPDATE audit SET namespace = 'x' WHERE seq = 900", 900, "edited"},
		{"data edited", "UPDATE audit SET data = " + repacked("{}", nil) + " WHERE seq = 900", 900, "edited"},
		{"time edited", "UPDATE audit SET time = time + 1 WHERE seq = 900", 900, "edited"},
		{"prev edited", "UPDATE audit SET prev = zeroblob(32) WHERE seq = 900", 900, "edited"},
		{"hash edited", "UPDATE audit SET hash = zeroblob(32) WHERE seq = 900", 900, "edited"},
		{"a row of another type, in a table that looks untouched", `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'audit';
			PRAGMA writable_schema = RESET; UPDATE audit SET time = 'noon' WHERE seq = 900;
			PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'audit'; PRAGMA writable_schema = RESET`, 900,
			"cannot be read"},
		{"seq edited", "UPDATE audit SET seq = 99999 WHERE seq = 1622", 1622, "missing"},
		{"first deleted", "DELETE FROM audit WHERE seq = 1", 1, "missing"},
		{"middle deleted", "DELETE FROM audit WHERE seq BETWEEN 900 AND 999", 900, "missing"},
		{"last deleted", "DELETE FROM audit WHERE seq = 1622", 1622, "is missing"},
		{"all deleted", "DELETE FROM audit", 1, "is missing"},
		{"swapped", "UPDATE audit SET seq = -1 WHERE seq = 800; UPDATE audit SET seq = 800 WHERE seq = 801; UPDATE audit SET seq = 801 " +
			"WHERE seq = -1", 800, "moved here"},
		{"replaced", "REPLACE INTO audit SELECT seq, time, 'x', run, namespace, prev, hash, receipt, data FROM audit WHERE seq = 900", 900,
			"edited"},
		{"the end cut off", "DELETE FROM audit WHERE seq > 1500", 1501, "is missing"},
		{"the end cut off, with its checkpoints", "DELETE FROM audit WHERE seq > 1222; DELETE FROM checkpoints WHERE size > 1222; DELETE FROM " +
			"tree WHERE (position + 1) << level > 1222", 1223, "older copy"},
		{"rewritten from a row on", rewriteFrom(t, original, 1300), 1223, "was rewritten, or one of those after it up to row 1422"},
		{"rewritten, newer checkpoints deleted", rewriteFrom(t, original, 1300) + "; DELETE FROM checkpoints WHERE size > 1222; DELETE FROM " +
			"tree WHERE (position + 1) << level > 1222", 1223, "the checkpoint in "},
		{"last rewritten", rewriteFrom(t, original, 1622), 1423, "was rewritten, or one of those after it up to row 1622"},
		{"a link edited", "UPDATE audit SET prev = x'00000000' WHERE seq = 900", 899, "was replaced, or rows behind it were taken out"},
		{"a receipt edited", "UPDATE audit SET data = " + repacked(string(rows[905].Data), []byte("{}")) + " WHERE seq = 906", 906,
			"another receipt"},
		{"a receipt deleted", "UPDATE audit SET receipt = NULL, data = " + repacked(string(rows[905].Data), nil) + " WHERE seq = 906", 906,
			"lost its receipt"},
		{"a signature deleted", "UPDATE audit SET receipt = NULL WHERE seq = 906", 906, "cannot be read: row 906"},
		{"a signature edited", "UPDATE audit SET receipt = x'0101' WHERE seq = 906", 906, "cannot be read: row 906"},
		{"a receipt added", "UPDATE audit SET receipt = x'00', data = " + repacked(string(rows[906].Data), []byte("{}")) + " WHERE seq = 907",
			907, "a receipt of which it says nothing"},
		{"receipts swapped", "UPDATE audit SET data = " + repacked(string(rows[905].Data), []byte(`{"payload":"receipt of r11"}`)) +
			" WHERE seq = 906", 906, "another receipt"},
		{"data that can't be unpacked", "UPDATE audit SET data = zeroblob(9) WHERE seq = 900", 900, "cannot be read: row 900"},
		{"data without end", fmt.Sprintf("UPDATE audit SET data = x'%x' WHERE seq = 900", bomb(t)), 900, "cannot be read: row 900"},
		{"the dictionary edited", "UPDATE dictionary SET text = zeroblob(length(text))", 1, ""},
		{"the dictionary deleted", "DELETE FROM dictionary", 1, "cannot be read: the dictionary"},
		{"the dictionary without end", "UPDATE dictionary SET text = zeroblob(100000000)", 1, "cannot be read: the dictionary"},
		{"a checkpoint edited", "UPDATE checkpoints SET note = replace(note, '1222', '1223') WHERE size = 1222", 1222,
			"signature does not match"},
		{"a checkpoint moved", "UPDATE checkpoints SET size = 1221 WHERE size = 1222", 1221, "for another row"},
		{"a checkpoint emptied", "UPDATE checkpoints SET note = '' WHERE size = 1222", 1222, "not a signed checkpoint"},
		{"a checkpoint's signature edited", "UPDATE checkpoints SET note = substr(note, 1, length(note) - 8) || 'AAAAAA=' || char(10) WHERE " +
			"size = 1222", 1222, "the checkpoint there was changed"},
		{"a checkpoint by another key", "UPDATE checkpoints SET note = '" + string(forge(t, notes[1])) + "' WHERE size = 1422", 1422,
			"no known key"},
		{"a checkpoint for more rows", "INSERT INTO checkpoints SELECT 9999, note FROM checkpoints WHERE size = 1622", 1623, "is missing"},
		{"a checkpoint for less than nothing", "INSERT INTO checkpoints SELECT -5, note FROM checkpoints WHERE size = 1622", 0,
			"a checkpoint for -5 rows"},
		{"the tree edited", "UPDATE tree SET hash = zeroblob(32) WHERE level = 8 AND position = 4", 0, "another hash over rows 1025 to 1280"},
		{"the tree cut", "DELETE FROM tree WHERE level = 9 AND position = 1", 0, "lost its hash over rows 513 to 1024"},
		{"the tree grown", "INSERT INTO tree VALUES (8, 6, zeroblob(32))", 0, "11 hashes instead of 10"},
		{"the tree grown below", "INSERT INTO tree VALUES (3, 1, zeroblob(32))", 0, "where none belongs"},
		{"the tree grown at no level", "INSERT INTO tree VALUES (-1, 5, zeroblob(32))", 0, "where none belongs"},
		{"a trigger under a name of SQLite's", `CREATE TRIGGER zz BEFORE INSERT ON audit WHEN new.kind = 'key.rotated' BEGIN SELECT raise(IGNORE); END;
			PRAGMA writable_schema = 1; UPDATE sqlite_schema SET name = 'sqlite_stat1', sql = replace(sql, ' zz ', ' sqlite_stat1 ') WHERE name = 'zz'`, 0, "trigger sqlite_stat1 was added"},
		{"an index gone", "DROP INDEX audit_kind", 0, "index audit_kind was removed"},
		{"a column added", "ALTER TABLE dictionary ADD COLUMN x TEXT", 0, "table dictionary was changed"},
		{"a table added", "CREATE TABLE x (y)", 0, "table x was added"},
		{"a table gone", "DROP TABLE tree", 0, "was removed"},
		{"checkpoints gone, as a table", "DROP TABLE checkpoints", 0, "was removed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := copyAll(t, original)
			made := again
			if strings.HasPrefix(test.sql, "DROP TABLE") {
				made = nil
			}
			tamper(t, path, append(append(append([]string{}, drop...), test.sql), made...)...)
			r := verify(t, path, VerifyOptions{Keys: keys('a')})
			if r.Bad == nil || r.Bad.Seq != test.seq || !strings.Contains(r.Bad.Why, test.why) {
				t.Errorf("got %+v, want row %d and %q", r.Bad, test.seq, test.why)
			}
			if r.Rows > last || test.seq >= 1 && r.Rows >= test.seq {
				t.Errorf("called %d rows good", r.Rows)
			}
			if r.Rows > 0 && r.Head != rows[r.Rows-1].Hash {
				t.Errorf("the head is not that of row %d", r.Rows)
			}
		})
	}
}

// repacked returns the stored form of data and a receipt as an SQL literal.
func repacked(data string, receipt []byte) string {
	b, _, err := pack.New(pack.Dictionary).Pack(json.RawMessage(data), receipt)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("x'%x'", b)
}

// bomb returns a small compressed frame that expands beyond a row's limit.
func bomb(t testing.TB) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return enc.EncodeAll(make([]byte, 2*pack.MaxContent), nil)
}

// signedLog returns the path of a closed log with 1,022 signed rows, and the rows.
func signedLog(t testing.TB) (path string, rows []Row) {
	t.Helper()
	path = logPath(t)
	l := openSigned(t, path, signing(100))
	for range 10 {
		fillFast(t, l, 100)
	}
	fillFast(t, l, 22)
	rows = collect(t, l, Filter{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path, rows
}

// copyAll copies a log with all files beside it.
func copyAll(t testing.TB, from string) (to string) {
	t.Helper()
	to = logPath(t)
	if err := os.CopyFS(filepath.Dir(to), os.DirFS(filepath.Dir(from))); err != nil {
		t.Fatal(err)
	}
	return to
}

// forge signs a note's text with another key.
func forge(t testing.TB, note []byte) []byte {
	t.Helper()
	c, err := checkpoint.Open(note, nil)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := c.Sign(seeded('z'))
	if err != nil {
		t.Fatal(err)
	}
	return forged
}

// TestAttackFiles has attacks on several files, and some that only an external checkpoint reveals.
func TestAttackFiles(t *testing.T) {
	original, rows, notes := attackable(t)
	older := copyAll(t, original)
	l := openSigned(t, original, signing(100))
	fillFast(t, l, 50)
	newest, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	copyTo := func(from, to string) error {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o600)
	}
	for _, test := range []struct {
		name     string
		attack   func(path string) error
		alone    string // result of Verify with the key
		external string // and with the stored checkpoints; "" is the same
	}{
		{"an older copy of the database", func(path string) error { return copyTo(older, path) }, "row 1623 is missing", ""},
		{"an older copy of database, checkpoint and what was acknowledged", func(path string) error {
			return errors.Join(copyTo(older, path), copyTo(older+"-checkpoint", path+"-checkpoint"),
				copyTo(acknowledgedPath(older), acknowledgedPath(path)))
		}, "", "row 1623 is missing"},
		{"an older copy of database and checkpoint", func(path string) error {
			return errors.Join(copyTo(older, path), copyTo(older+"-checkpoint", path+"-checkpoint"))
		}, "row 1623 is missing, with all after it up to row 1672, 50 in all", "row 1623 is missing"},
		{"an older copy, and nothing beside it", func(path string) error {
			os.Remove(path + "-checkpoint")
			os.Remove(acknowledgedPath(path))
			return copyTo(older, path)
		}, "remark", "row 1623 is missing"},
		{"the checkpoint file deleted", func(path string) error { return os.Remove(path + "-checkpoint") }, "remark", "remark"},
		{"the checkpoint file emptied", func(path string) error { return os.WriteFile(path+"-checkpoint", nil, 0o600) }, "remark", "remark"},
		{"the checkpoint file is garbage", func(path string) error { return os.WriteFile(path+"-checkpoint", []byte("x\n"), 0o600) },
			"row 0 the checkpoint in", ""},
		{"the checkpoint file by another key", func(path string) error {
			return os.WriteFile(path+"-checkpoint", forge(t, newest), 0o600)
		}, "no known key", ""},
		{"the log deleted and begun anew", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			l := openLog(t, path)
			fill(t, l, 2000)
			return l.Close()
		}, "of another log", ""},
		{"the log written anew with another key", func(path string) error { return rewriteWith(t, path, 'z') }, "no known key", "no known key"},
		{"the log written anew with our key", func(path string) error { return rewriteWith(t, path, 'a') }, "", "of another log"},
		{"a forked log", func(path string) error {
			if err := copyTo(older, path); err != nil {
				return err
			}
			os.Remove(path + "-checkpoint")
			os.Remove(acknowledgedPath(path))
			l := openSigned(t, path, signing(100)) // with our key, which the attacker does not have
			fill(t, l, 100)
			return l.Close()
		}, "", "was rewritten, or one of those after it up to row 1672"}, // our key has signed both from there on
		{"a forged row at the end", func(path string) error {
			l := openLog(t, path) // has no key, and appends like the program
			fill(t, l, 1)
			return l.Close()
		}, "unsigned", "unsigned"},
		{"an old -wal file put back", func(path string) error {
			l := openLog(t, older)
			fill(t, l, 3)
			if err := copyTo(older+"-wal", path+"-wal"); err != nil {
				return err
			}
			return l.Close()
		}, "harmless", "harmless"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := copyAll(t, original)
			if err := test.attack(path); err != nil {
				t.Fatal(err)
			}
			if test.external == "" {
				test.external = test.alone
			}
			for want, o := range map[*string]VerifyOptions{&test.alone: {Keys: keys('a')},
				&test.external: {Keys: keys('a'), Checkpoints: append(notes, newest)}} {
				l, err := Open(t.Context(), path)
				var r Report
				if err == nil {
					r, err = l.Verify(t.Context(), o)
					l.Close()
				}
				got := ""
				var other *NoteError
				if errors.As(err, &other) {
					got = other.Error()
				} else if err != nil && *want == "harmless" {
					got = err.Error()
				} else if err != nil {
					t.Fatal(err)
				}
				if r.Bad != nil {
					got = fmt.Sprintf("row %d %s", r.Bad.Seq, r.Bad.Why)
				}
				var ok bool
				switch *want {
				case "":
					ok = got == "" && len(r.Remarks) == 0
				case "remark":
					ok = got == "" && len(r.Remarks) > 0
				case "unsigned":
					ok = got == "" && r.Unsigned == 1
				case "harmless":
					ok = got != "" || r.Rows == int64(len(rows)+50)
				default:
					ok = strings.Contains(got, *want)
				}
				if !ok {
					t.Errorf("with %d kept checkpoints: got %q, remarks %q, %d unsigned; want %q", len(o.Checkpoints), got, r.Remarks, r.Unsigned, *want)
				}
			}
		})
	}
}

// rewriteWith makes a new log with the same number of rows, signed with another key.
func rewriteWith(t testing.TB, path string, seed byte) error {
	os.Remove(path + "-checkpoint")
	os.Remove(acknowledgedPath(path))
	if err := os.Remove(path); err != nil {
		return err
	}
	l := openSigned(t, path, Signing{Key: always(seeded(seed))})
	fillFast(t, l, 1672)
	return l.Close()
}

// TestAttackBits: a flipped bit anywhere in any of the files is noticed, or has changed no row, receipt or
// checkpoint.
func TestAttackBits(t *testing.T) {
	original, want, _ := attackable(t)
	files := []string{original, original, original, original + "-checkpoint"}
	wantFacts := facts(t, original)
	noticed, harmless, flips := 0, map[string]int{}, hosttest.Rounds(100, 500)
	for range flips {
		path := copyAll(t, original)
		file := path + strings.TrimPrefix(files[rand.IntN(len(files))], original)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		i := rand.IntN(len(b))
		b[i] ^= 1 << rand.IntN(8)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), path)
		if err != nil {
			noticed++
			continue
		}
		r, err := l.Verify(t.Context(), VerifyOptions{Keys: keys('a')})
		if err != nil || r.Bad != nil {
			noticed++
		} else {
			harmless[strings.TrimPrefix(file, path)]++
			if diff := cmp.Diff(want, collect(t, l, Filter{})); diff != "" {
				t.Errorf("a flipped bit in byte %d of %s went unnoticed:\n%s", i, file, diff)
			}
			if diff := cmp.Diff(wantFacts, facts(t, path)); diff != "" {
				t.Errorf("a flipped bit in byte %d of %s went unnoticed:\n%s", i, file, diff)
			}
		}
		l.Close()
	}
	t.Logf("noticed %d of %d; harmless: %v", noticed, flips, harmless)
	if noticed < flips/4 {
		t.Errorf("noticed only %d of %d", noticed, flips)
	}
}

// facts returns the content of a log other than its rows.
func facts(t testing.TB, path string) (all []string) {
	t.Helper()
	l := openLog(t, path)
	defer l.Close()
	for _, query := range []string{"SELECT size || ' ' || note FROM checkpoints",
		"SELECT level || ' ' || position || ' ' || hex(hash) FROM tree"} {
		rows, err := l.active.Load().db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		rows.Close()
	}
	var seq int64
	for err := range statefile.Each(t.Context(), l.active.Load().db, []any{&seq}, "SELECT seq FROM audit WHERE receipt IS NOT NULL") {
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.active.Load().readRow(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(r.receipt))
	}
	latest, _ := os.ReadFile(path + "-checkpoint")
	b, _ := json.Marshal(string(latest))
	return append(all, string(b))
}
