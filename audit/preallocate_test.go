package audit

import (
	"os"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestRoom: a frequently written log is preallocated, and read as before, also by a process that finds a killed
// one's file.
func TestRoom(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path)
	long := func() bool {
		info, err := os.Stat(path + "-wal")
		return err == nil && info.Size() >= walSize
	}
	fill(t, l, 1)
	rows := int64(1)
	hosttest.Until(t, "room was made", func() bool {
		if rows < 100 { // many more would make it as long
			fill(t, l, 1)
			if _, err := l.Append(t.Context(), Entry{Kind: "k", Soon: true}); err != nil {
				t.Fatal(err)
			}
			rows += 2
		}
		return long()
	})
	fill(t, l, 5)
	left := logPath(t)
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		if err == nil {
			err = os.WriteFile(left+end, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	again := openLog(t, left)
	wantSound(t, again, rows+5)
	fill(t, again, 3)
	wantSound(t, again, rows+8)
	l.Close()
	wantSound(t, openLog(t, path), rows+5)
}

func TestNoRoom(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		hosttest.SkipMissing(t, "/dev/full", err.Error())
	}
	defer f.Close()
	if err := preallocate(f, 10); err == nil {
		t.Error("made room on a full disk")
	}
}
