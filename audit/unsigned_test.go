package audit

import (
	"context"
	"crypto/ed25519"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const noCheckpoints = "DROP TRIGGER checkpoints_no_delete; DROP TRIGGER tree_no_delete; DELETE FROM checkpoints; DELETE FROM tree"

// unsign takes all signatures off a log, and leaves no trace of that but what rows and keys say.
func unsign(t *testing.T, path string) {
	t.Helper()
	var remake []string
	for _, s := range strings.SplitAfter(schema2, "END;") {
		if i := strings.Index(s, "CREATE TRIGGER"); i >= 0 && (strings.Contains(s, "checkpoints_no_delete") || strings.Contains(s, "tree_no_delete")) {
			remake = append(remake, s[i:])
		}
	}
	tamper(t, path, noCheckpoints, strings.Join(remake, "\n"))
	os.Remove(path + "-checkpoint")
}

// A log whose checkpoints were all removed is not in order where keys, or its own rows, say that it was signed.
func TestAllCheckpointsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		entry Entry
		keys  []ed25519.PublicKey
		bad   bool
	}{
		"keys are known":   {Entry{Kind: "k"}, keys('a'), true},
		"a row of a key":   {Entry{Kind: "key.created"}, nil, true},
		"a receipt":        {Entry{Kind: "k", Receipt: []byte("{}")}, nil, true},
		"nothing says so":  {Entry{Kind: "k"}, nil, false},
		"a row of sealing": {Entry{Kind: sealedKind}, nil, true},
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

// The first row of a log is signed at once: no time passes.
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

// Whoever removes checkpoints and lets the next run sign anew leaves rows that were signed late.
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
