package audit

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// seeded returns the same key for each seed.
func seeded(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}

// always returns a key that is never replaced.
func always(key crypto.Signer) func(context.Context) (crypto.Signer, error) {
	return func(context.Context) (crypto.Signer, error) { return key, nil }
}

func keys(seeds ...byte) (list []checkpoint.Key) {
	for _, s := range seeds {
		list = append(list, checkpoint.Key{PublicKey: seeded(s).Public().(ed25519.PublicKey)})
	}
	return list
}

func signing(every int) Signing { return Signing{Key: always(seeded('a')), Every: every} }

func openSigned(t testing.TB, path string, s Signing) *Log {
	t.Helper()
	l, err := OpenSigned(context.Background(), path, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// verify returns the result of Verify for the log at path with the keys of these seeds.
func verify(t testing.TB, path string, o VerifyOptions) Report {
	t.Helper()
	l := openLog(t, path)
	defer l.Close()
	r, err := l.Verify(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantSigned checks that all rows are present, valid, and covered by a checkpoint.
func wantSigned(t testing.TB, path string, rows int64, seeds ...byte) Report {
	t.Helper()
	r := verify(t, path, VerifyOptions{Keys: keys(seeds...)})
	if r.Bad != nil || r.Rows != rows || r.Unsigned != 0 || r.Checkpoint == nil || !r.Checkpoint.Signed {
		t.Fatalf("got %d rows, %d unsigned, bad %+v, checkpoint %+v; want %d signed ones", r.Rows, r.Unsigned, r.Bad, r.Checkpoint, rows)
	}
	return r
}

func sizes(t testing.TB, l *Log) (s string) {
	t.Helper()
	rows, err := l.active.Load().db.Query("SELECT size FROM checkpoints ORDER BY size")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		s += fmt.Sprint(" ", n)
	}
	return strings.TrimSpace(s)
}

func TestSigned(t *testing.T) {
	began := time.Now().Truncate(time.Second)
	path := logPath(t)
	l := openSigned(t, path, signing(10))
	for _, want := range []string{"10", "10 20"} {
		fillFast(t, l, 10) // at once, otherwise a slow disk might cause a second of silence
		hosttest.Until(t, "checkpoints are at "+want, func() bool { return sizes(t, l) == want })
	}
	fillFast(t, l, 5)
	hosttest.Until(t, "after a second of silence, checkpoints are at 10 20 25", func() bool { return sizes(t, l) == "10 20 25" })
	fill(t, l, 3)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := wantSigned(t, path, 28, 'a')
	if r.Checkpoint.Size != 28 || r.Checkpoint.Root != r.Root || r.Checkpoint.Time.Before(began) {
		t.Errorf("got %+v", r.Checkpoint)
	}
	latest, err := os.ReadFile(path + "-checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path + "-checkpoint"); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	vkey, err := note.NewEd25519VerifierKey(r.Origin, keys('a')[0].PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(latest, note.VerifierList(v))
	if want := fmt.Sprintf("%s\n28\n%s\n", r.Origin, r.Root); err != nil || n.Text != want {
		t.Errorf("the file says %q, %v; want %q", n.Text, err, want)
	}
	// Nothing was appended, so nothing is signed.
	if err := openSigned(t, path, signing(10)).Close(); err != nil {
		t.Error(err)
	}
	l = openSigned(t, path, signing(10))
	if got, err := l.Checkpoint(t.Context()); err != nil || string(got) != string(latest) {
		t.Errorf("a second one for the same rows: %s, %v", got, err)
	}
}

// TestSignedLarge has enough rows for several levels of stored nodes, signed in several steps.
func TestSignedLarge(t *testing.T) {
	path := logPath(t)
	rows := int64(0)
	for i, n := range []int{1, 254, 1, 1, 700, 2500, 2500, 2500, 3} {
		l := openSigned(t, path, signing(1000))
		entries := make([]Entry, n)
		for i := range entries {
			entries[i].Kind = "k"
		}
		if _, err := l.Append(t.Context(), entries...); err != nil {
			t.Fatal(err)
		}
		if rows += int64(n); i%2 == 1 {
			if _, err := l.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		wantSigned(t, path, rows, 'a')
	}
}

// TestCheckpoint: Checkpoint returns a result even if nothing can be signed.
func TestCheckpoint(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(0))
	_, err := l.Checkpoint(t.Context())
	wantError(t, err, "empty")
	fill(t, l, 3)
	signed, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reader := openLog(t, path)
	if got, err := reader.Checkpoint(t.Context()); err != nil || string(got) != string(signed) {
		t.Errorf("got %s, %v", got, err)
	}
	fill(t, reader, 1)
	_, err = reader.Checkpoint(t.Context())
	wantError(t, err, "rows 4 to 4 are not signed")
	l.Close()
	_, err = l.Checkpoint(t.Context())
	wantError(t, err, "closed")
	other := seededRSA(t)
	_, err = OpenSigned(t.Context(), path, Signing{Key: always(other)})
	wantError(t, err, "Ed25519")
}

func seededRSA(t *testing.T) crypto.Signer {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestSignedRotation: an older version of the program, a read-only command, or one without a key appends rows that
// the next process signs; keys change.
func TestSignedRotation(t *testing.T) {
	path := logPath(t)
	rows := int64(0)
	for i, s := range []Signing{
		{}, {Key: always(seeded('a'))}, {}, {Key: always(seeded('b'))},
		{Key: always(seeded('c')), KnownKeys: func() []checkpoint.Key { return keys('a', 'b') }}, {Key: always(seeded('a'))},
	} {
		l := openLog(t, path)
		if s.Key != nil {
			l = openSigned(t, path, s)
		}
		n := 300*i + 7
		fillFast(t, l, n)
		rows += int64(n)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantSigned(t, path, rows, 'a', 'b', 'c')
	if r := verify(t, path, VerifyOptions{Keys: keys('a', 'b')}); r.Bad == nil || !strings.Contains(r.Bad.Why, "no known key") {
		t.Errorf("without one of the keys: got %+v", r.Bad)
	}
	if r := verify(t, path, VerifyOptions{}); r.Bad != nil || r.Checkpoint.Signed {
		t.Errorf("without keys: got %+v, %+v", r.Bad, r.Checkpoint)
	}
}

// fillFast appends n rows at once.
func fillFast(t testing.TB, l *Log, n int) {
	t.Helper()
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{Kind: "execution.completed", Run: fmt.Sprint("r", i+1), Namespace: "default", Data: map[string]int{"n": i + 1}}
		if i%5 == 0 {
			entries[i].Receipt = fmt.Appendf(nil, `{"payload":"receipt of r%d"}`, i+1)
		}
	}
	if _, err := l.Append(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
}

// brokenKey can't sign for a while.
type brokenKey struct {
	crypto.Signer
	mu     sync.Mutex
	broken bool
}

func (k *brokenKey) set(broken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = broken
}

func (k *brokenKey) Sign(r io.Reader, msg []byte, o crypto.SignerOpts) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken {
		return nil, errors.New("the token was pulled out")
	}
	return k.Signer.Sign(r, msg, o)
}

// TestSigningFails: no row is lost or refused for lack of a signature, and the next one covers all.
func TestSigningFails(t *testing.T) {
	path := logPath(t)
	key := &brokenKey{Signer: seeded('a'), broken: true}
	var logged bytes.Buffer
	l := openSigned(t, path, Signing{Key: always(key), Every: 5, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	fill(t, l, 12)
	_, err := l.Checkpoint(t.Context())
	wantError(t, err, "pulled out")
	if strings.Count(err.Error(), "audit log") != 1 {
		t.Errorf("it says things twice: %v", err)
	}
	key.set(false)
	fillFast(t, l, 5)
	hosttest.Until(t, "it is signed again", func() bool { return sizes(t, l) == "17" })
	key.set(true)
	fill(t, l, 1)
	wantError(t, l.Close(), "pulled out", path)
	if n := strings.Count(logged.String(), "stay unsigned"); n != 2 { // once per failure period
		t.Errorf("%d lines in the program's log:\n%s", n, logged.String())
	}
	r := verify(t, path, VerifyOptions{Keys: keys('a')})
	if r.Bad != nil || r.Rows != 18 || r.Unsigned < 1 {
		t.Errorf("got %+v", r)
	}
	l = openSigned(t, path, signing(5))
	fill(t, l, 1)
	l.Close()
	wantSigned(t, path, 19, 'a')
}

// TestSigningRefuses: rows that don't continue the signed rows are not signed, and appends continue.
func TestSigningRefuses(t *testing.T) {
	original := logPath(t)
	l := openSigned(t, original, signing(10))
	fill(t, l, 30)
	l.Close()
	older := copyLog(t, original)
	l = openSigned(t, original, signing(10))
	fill(t, l, 10)
	l.Close()
	latest, err := os.ReadFile(original + "-checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path, sql, latest, want string
	}{
		"an older copy put back": {older, "", string(latest), "an older copy was put in the log's place"},
		"a row rewritten":        {original, rewriteFrom(t, original, 35), "-", "do not match the checkpoint there"},
		"a row rewritten, other file": {original, rewriteFrom(t, original, 35) + "; DROP TRIGGER checkpoints_no_delete; DELETE FROM " +
			"checkpoints WHERE size > 20", string(latest), "do not match it"},
		"the file is garbage":     {original, "", "garbage", "not a signed checkpoint"},
		"the file of another log": {original, "", strings.ReplaceAll(string(latest), "audit/", "audit/0"), "of another log"},
		"the checkpoint is garbage": {original, "DROP TRIGGER checkpoints_no_update; UPDATE checkpoints SET note = 'x' WHERE size = 40", "",
			"not a signed checkpoint"},
		"the checkpoint was edited": {original, "DROP TRIGGER checkpoints_no_update; UPDATE checkpoints SET note = replace(note, " +
			"'sandboxmcp-audit/', 'Sandboxmcp-audit/') WHERE size = 40", "", "of another log"},
		"the tree was edited": {large(t, 600), "DROP TRIGGER tree_no_update; UPDATE tree SET hash = zeroblob(32)", "-",
			"do not match the checkpoint there"},
		"the end is cut off":       {original, "DELETE FROM audit WHERE seq > 30", "", "covers 40 rows, and the log has"},
		"the end of a whole block": {large(t, 512), "DELETE FROM audit WHERE seq > 500", "-", "covers 512 rows, and the log has"},
		"rows are gone": {original, "DROP TRIGGER checkpoints_no_delete; DELETE FROM checkpoints; DELETE FROM audit WHERE seq = 39",
			"-", "row 39 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := copyLog(t, test.path)
			tamper(t, path, append(dropTriggers, test.sql, triggers("", ""))...)
			if test.latest == "" {
				test.latest = string(latest)
			}
			if test.latest != "-" {
				if err := os.WriteFile(path+"-checkpoint", []byte(test.latest), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l := openSigned(t, path, signing(3))
			before := sizes(t, l)
			fill(t, l, 5)
			if after := sizes(t, l); after != before {
				t.Errorf("signed at %s, and before at %s", after, before)
			}
			wantError(t, l.Close(), test.want, "audit verify")
		})
	}
}

func large(t *testing.T, rows int) string {
	path := logPath(t)
	l := openSigned(t, path, signing(0))
	fillFast(t, l, rows)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	os.Remove(path + "-checkpoint")
	return path
}

// rewriteFrom returns SQL that changes row seq and rehashes it and all later rows, so that the chain is consistent
// again.
func rewriteFrom(t testing.TB, path string, seq int64) string {
	t.Helper()
	l := openLog(t, path)
	defer l.Close()
	var sql []string
	var prev, changed string
	for _, r := range collect(t, l, Filter{After: seq - 1}) {
		if r.Seq == seq {
			r.Data, changed = []byte(`{"n":0}`), "data = "+repacked(`{"n":0}`, nil)+", receipt = NULL, "
		} else {
			r.Prev, changed = prev, ""
		}
		hash := hashRow(r)
		prev = fmt.Sprintf("%x", hash)
		sql = append(sql, fmt.Sprintf("UPDATE audit SET %s prev = x'%s', hash = x'%s' WHERE seq = %d", changed, r.Prev[:2*linkSize], prev, r.Seq))
	}
	return strings.Join(sql, "; ")
}

// TestKeyReplaced: a key that is replaced while the log is open signs nothing more.
func TestKeyReplaced(t *testing.T) {
	path := logPath(t)
	var now atomic.Value
	now.Store(seeded('a'))
	l := openSigned(t, path, Signing{Every: 5, Key: func(context.Context) (crypto.Signer, error) {
		return now.Load().(ed25519.PrivateKey),
			nil
	}})
	fill(t, l, 7)
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	now.Store(seeded('b'))
	fill(t, l, 7)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantSigned(t, path, 14, 'a', 'b')
	if r := verify(t, path, VerifyOptions{Keys: keys('a')}); r.Bad == nil || !strings.Contains(r.Bad.Why, "no known key") {
		t.Errorf("the old key signed all: %+v", r)
	}
}

// TestVanishingRow: a trigger can silently discard rows. They are not acknowledged then.
func TestVanishingRow(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path)
	fill(t, l, 2)
	if _, err := l.active.Load().db.Exec("CREATE TRIGGER zz BEFORE INSERT ON audit WHEN new.kind = 'key.rotated' BEGIN SELECT " +
		"raise(IGNORE); END"); err != nil {
		t.Fatal(err)
	}
	_, err := l.Append(t.Context(), Entry{Kind: "key.rotated"})
	wantError(t, err, "was not taken")
}

// TestRowOfTheKeyIsSigned: the row about a new key is signed even if no other follows, by a process that ends at
// once and by one that stays.
func TestRowOfTheKeyIsSigned(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   string
		stays  time.Duration
		signed bool
	}{
		"ends at once": {"key.created", 0, true},
		"stays":        {"key.created", signAfterIdle + time.Second, true},
		"another row":  {"run.start", signAfterIdle + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			l, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(t.Context(), Entry{Kind: tt.kind}); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				l := openSigned(t, path, signing(0))
				time.Sleep(tt.stays)
				synctest.Wait()
				if tt.stays > 0 {
					if _, err := l.NewestCheckpoint(t.Context()); (err == nil) != tt.signed {
						t.Errorf("before the end: %v", err)
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			})
			if r := verify(t, path, VerifyOptions{Keys: keys('a')}); (r.Bad == nil) != tt.signed {
				t.Errorf("got %+v", r.Bad)
			}
		})
	}
}

// TestSignatureHasOneSpelling: a checkpoint has one encoding: the padding bits of the last base64 byte must be
// zero.
func TestSignatureHasOneSpelling(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(0))
	fill(t, l, 1)
	note, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := strings.LastIndexByte(string(note), '=') - 1
	if _, err := checkpoint.Open(note, keys('a')); err != nil || note[last+1] != '=' {
		t.Fatalf("%s: %v", note, err)
	}
	note[last] = digits[strings.IndexByte(digits, note[last])+1]
	if _, err := checkpoint.Open(note, keys('a')); !errors.Is(err, checkpoint.ErrBadSig) {
		t.Errorf("%s: got %v", note, err)
	}
}
