package audit

import (
	"context"
	"crypto"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestAppendWhileSigning: appends wait only briefly for a signer that waits for a key.
func TestAppendWhileSigning(t *testing.T) {
	path := logPath(t)
	var asked atomic.Int32
	key := make(chan struct{})
	l := openSigned(t, path, Signing{Every: 5, Key: func(context.Context) (crypto.Signer, error) {
		if asked.Add(1) > 1 { // the first request is OpenSigned's
			<-key
		}
		return seeded('a'), nil
	}})
	fill(t, l, 5)
	hosttest.Until(t, "it signs", func() bool { return asked.Load() > 1 })
	for range 20 {
		if _, err := l.Append(t.Context(), Entry{Kind: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	close(key)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantSigned(t, path, 25, 'a')
}

// TestSignsWhatIsOnDisk: rows that can't be flushed are not signed.
func TestSignsWhatIsOnDisk(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(1000))
	l.sync = func(*os.File) error { return errors.New("the disk is gone") }
	if _, err := l.Append(t.Context(), Entry{Kind: "k", Soon: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(t.Context()); err == nil {
		t.Error("a row was signed that is not on the disk")
	}
	if got := sizes(t, l); got != "" {
		t.Errorf("checkpoints at %s", got)
	}
	l.Close()
}
