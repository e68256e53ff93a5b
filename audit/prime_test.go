package audit

import (
	"context"
	"crypto"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestPrepared has a log whose first checkpoint was prepared, and then came later than those of another process.
func TestPrepared(t *testing.T) {
	for name, after := range map[string]int{"fewer": 1, "more": 9} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			slow, s := openLog(t, path), &signer{Signing: signing(1000), hasUnsigned: true}
			defer s.close()
			fill(t, slow, 5)
			if s.prepareFirst(slow.active.Load()); s.tree.Size != 5 {
				t.Fatalf("%d rows were prepared", s.tree.Size)
			}
			fill(t, slow, 1)
			quick := openSigned(t, path, signing(1000))
			fill(t, quick, after)
			if err := quick.Close(); err != nil {
				t.Fatal(err)
			}
			fill(t, slow, 2)
			if _, err := s.checkpoint(slow.active.Load()); err != nil {
				t.Fatal(err)
			}
			wantSigned(t, path, int64(8+after), 'a')
		})
	}
}

// TestPreparedInVain: a key that is unavailable while the first checkpoint is prepared is requested again.
func TestPreparedInVain(t *testing.T) {
	path := logPath(t)
	first := openSigned(t, path, signing(1000))
	fill(t, first, 3)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	l := openSigned(t, path, Signing{Every: 1000, Key: func(context.Context) (crypto.Signer, error) {
		if asked.Add(1) == 2 { // the first request is OpenSigned's
			return nil, errors.New("not now")
		}
		return seeded('a'), nil
	}})
	fill(t, l, 2)
	fill(t, l, 1)
	hosttest.Until(t, "it was prepared", func() bool { return asked.Load() >= 2 })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantSigned(t, path, 6, 'a')
}
