package audit

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
)

const noCheckpoints = "DROP TRIGGER checkpoints_no_delete; DROP TRIGGER tree_no_delete; DELETE FROM checkpoints; DELETE FROM tree"

// unsign removes all signatures of a log; only rows and keys still show that there were some.
func unsign(t *testing.T, path string) {
	t.Helper()
	var remake []string
	for _, s := range strings.SplitAfter(schema.Text, "END;") {
		if i := strings.Index(s, "CREATE TRIGGER"); i >= 0 && (strings.Contains(s, "checkpoints_no_delete") ||
			strings.Contains(s, "tree_no_delete")) {
			remake = append(remake, s[i:])
		}
	}
	tamper(t, path, noCheckpoints, strings.Join(remake, "\n"))
	os.Remove(path + "-checkpoint")
}

// TestAllCheckpointsRemoved: a log without checkpoints is invalid if keys, or its own rows, show that it was
// signed.
func TestAllCheckpointsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		entry Entry
		keys  []checkpoint.Key
		bad   bool
	}{
		"keys are known":  {Entry{Kind: "k"}, keys('a'), true},
		"a row of a key":  {Entry{Kind: "key.created"}, nil, true},
		"a receipt":       {Entry{Kind: "k", Receipt: []byte("{}")}, nil, true},
		"nothing says so": {Entry{Kind: "k"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			l := openSigned(t, path, signing(0))
			for range 3 {
				if _, err := l.Append(t.Context(), slices.Repeat([]Entry{c.entry}, 200)...); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if r := verify(t, path, VerifyOptions{Keys: c.keys}); r.Bad != nil {
				t.Fatalf("before: %+v", r.Bad)
			}
			unsign(t, path)
			r := verify(t, path, VerifyOptions{Keys: c.keys})
			if got := r.Bad != nil && strings.Contains(r.Bad.Why, "no checkpoint is there, and"); got != c.bad {
				t.Errorf("got %+v, %q", r.Bad, r.Remarks)
			}
		})
	}
}

// TestFirstCheckpointDoesNotWait: the first row of a log is signed at once: no time passes.
func TestFirstCheckpointDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openSigned(t, logPath(t), signing(0))
		fill(t, l, 1)
		synctest.Wait()
		if got := sizes(t, l); got != "1" {
			t.Errorf("checkpoints at %q, want one at 1", got)
		}
		l.Close()
	})
}

// TestSignedLate: removing checkpoints so that the next run signs again leaves rows that were signed late.
func TestSignedLate(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(0))
	at := time.Now()
	l.now = func() time.Time { at = at.Add(time.Minute); return at }
	for range 3 {
		fill(t, l, 1)
		if _, err := l.Checkpoint(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	late := func() bool {
		return strings.Contains(strings.Join(verify(t, path, VerifyOptions{Keys: keys('a')}).Remarks, " "), "rows 1 to 4 were signed late")
	}
	if late() {
		t.Error("rows that were signed in time are called late")
	}
	unsign(t, path)
	l = openSigned(t, path, signing(0))
	l.now = func() time.Time { return at.Add(time.Minute) }
	fill(t, l, 1)
	l.Close()
	if !late() {
		t.Error("nothing is said of rows that nobody signed for minutes")
	}
}

// TestReplacedKeySignsNothing: signatures after a key's replacement are invalid: unless a newer checkpoint covers
// the rows, the log is invalid.
func TestReplacedKeySignsNothing(t *testing.T) {
	path := logPath(t)
	a, b := Signing{Key: always(seeded('a'))}, Signing{Key: always(seeded('b'))}
	at := time.Now().Add(-time.Hour)
	write := func(s Signing, n int) []byte {
		l := openSigned(t, path, s)
		l.now = func() time.Time { return at }
		fill(t, l, n)
		note, err := l.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return note
	}
	write(a, 3)
	until := at.Add(time.Minute)
	both := append(keys('b'), checkpoint.Key{PublicKey: keys('a')[0].PublicKey, End: until})
	expect := func(want string) {
		t.Helper()
		r := verify(t, path, VerifyOptions{Keys: both})
		if want == "" && r.Bad != nil || want != "" && (r.Bad == nil || !strings.Contains(r.Bad.Why, want)) {
			t.Errorf("got %+v, want %q", r.Bad, want)
		}
	}
	expect("")
	at = at.Add(30 * time.Minute)
	late := write(a, 3) // with the old key
	expect("its key does not count from")
	l := openLog(t, path)
	text, err := l.Proof(t.Context(), "5")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := CheckProof(text, keys('a')); err != nil {
		t.Error(err)
	}
	if _, err := CheckProof(text, both); err == nil {
		t.Error("a proof with a checkpoint of a key that was replaced is taken")
	}
	write(b, 1)
	expect("") // the newer key's checkpoint covers all of it
	if r := verify(t, path, VerifyOptions{Keys: both, Checkpoints: [][]byte{late}}); !strings.Contains(strings.Join(r.Remarks, " "),
		"do not count") {
		t.Errorf("nothing is said of it: %q", r.Remarks)
	}
}

// TestRemarks: rows whose clock went back, and a log that anybody may write to, are reported.
func TestRemarks(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(0))
	at := time.Now()
	l.now = func() time.Time { return at }
	for _, step := range []time.Duration{0, time.Second, -time.Second / 2, -time.Hour, time.Second} {
		at = at.Add(step)
		fill(t, l, 1)
	}
	l.Close()
	remarks := func() string {
		return strings.Join(verify(t, path, VerifyOptions{Keys: keys('a')}).Remarks, "\n")
	}
	if got := remarks(); !strings.Contains(got, "rows go back in time, 1 times: row 4 is of") || strings.Contains(got, "anybody") {
		t.Errorf("got %q", got)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, name := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, info.Mode().Perm()|0o002); err != nil {
			t.Fatal(err)
		}
		if got := remarks(); !strings.Contains(got, "anybody on this machine may write to "+name+":") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
