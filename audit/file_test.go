//go:build unix

package audit

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is put in the place of a file beside the log stops nobody.
func TestFIFOs(t *testing.T) {
	path, _ := sealedLog(t)
	segment := segmentFiles(t, path)[0]
	for _, name := range []string{path + "-checkpoint", segment} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := openSigned(t, path, signing(5))
	fill(t, l, 7)
	if err := l.Close(); err == nil {
		t.Error("it signed although the newest checkpoint is no file")
	}
	reader := openLog(t, path)
	if r, err := reader.Verify(t.Context(), VerifyOptions{}); err == nil && r.Bad == nil {
		t.Errorf("nothing was noticed: %+v", r)
	}
	if r, err := VerifySegment(segment, keys('a')); err == nil && r.Bad == nil {
		t.Errorf("%s: %+v", filepath.Base(segment), r)
	}
	for range reader.Rows(t.Context(), Filter{Sealed: true}) {
	}
	_, _ = reader.Receipt(t.Context(), "nobody")
}
