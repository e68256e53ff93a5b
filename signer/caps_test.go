package signer

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

func TestGrowingFileEndsAtTheCap(t *testing.T) {
	for name, find := range map[string]func(io.Reader) (bool, error){"straight": nil, "held": containsSecret} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var endless counter
			grow := reading("grow", 1, func() io.Reader { return &endless })
			src := sourceOf(file("before", "x"), grow, grow, grow, file("after", "y"))
			const limit = 3 << 20
			m := collect(t, src, Options{Dir: directoryAt(t, dir), MaxBytes: limit, ContainsSecret: find})
			if len(m.Artifacts) != 1 || m.Dropped != 4 || !strings.Contains(m.Why, "3145728 bytes") {
				t.Errorf("got %+v", m)
			}
			if endless > limit+1 {
				t.Errorf("read %d bytes of files that grow, want at most the cap of %d", endless, limit)
			}
			wantTree(t, dir, map[string]string{"before": "x", "SHA256SUMS": sum("x") + "  before\n"})
		})
	}
}

// counter is an endless file that counts the bytes read from it.
type counter int64

func (c *counter) Read(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func TestCapsAreExact(t *testing.T) {
	m := collect(t, sourceOf(file("a", "12345"), file("b", "12345"), file("c", "1"), file("d", "")), Options{MaxBytes: 10})
	if len(m.Artifacts) != 3 || m.Dropped != 1 || m.Why != "over the cap of 10 bytes: 1" {
		t.Errorf("got %+v", m)
	}
	m = collect(t, sourceOf(file("a", "1"), file("b", "2"), file("c", "3")), Options{MaxCount: 2, MaxBytes: 1<<63 - 1})
	if len(m.Artifacts) != 2 || m.Dropped != 1 || m.Why != "over the cap of 2 files: 1" {
		t.Errorf("got %+v", m)
	}
}

func TestManyFiles(t *testing.T) {
	const n = 100_000
	src := func(_ context.Context, f func(File) error) (int, error) {
		for i := range n {
			if err := f(file(fmt.Sprintf("dir/file-%06d", i), "content")); err != nil {
				return 0, err
			}
		}
		return 7, nil
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := collect(t, src, Options{Dir: directoryAt(t, t.TempDir())})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(m.Artifacts) != DefaultMaxCount || m.Dropped != n-DefaultMaxCount || m.Skipped != 7 {
		t.Errorf("got %d artifacts, %d dropped, %d skipped", len(m.Artifacts), m.Dropped, m.Skipped)
	}
	if want := "over the cap of 1000 files: 99000; no regular files, or out of reach: 7"; m.Why != want {
		t.Errorf("got %q, want %q", m.Why, want)
	}
	if retained := int64(after.HeapAlloc) - int64(before.HeapAlloc); retained > 4<<20 {
		t.Errorf("%d bytes stay in memory", retained)
	}
	runtime.KeepAlive(m)
}

// TestUnchangedInputsAndCaps: inputs don't use the artifacts' cap, and comparing them is bounded, too.
func TestUnchangedInputsAndCaps(t *testing.T) {
	inputs := map[string]string{"1": sum("1234"), "2": sum("1234"), "3": sum("1234")}
	src := sourceOf(file("1", "1234"), file("2", "1234"), file("3", "1234"), file("out", "123456789"))
	m := collect(t, src, Options{MaxBytes: 9, MaxCount: 1, Unchanged: inputs})
	if len(m.Artifacts) != 1 || m.Dropped != 1 {
		t.Errorf("got %+v", m)
	}
	var endless counter
	grow := reading("1", 1, func() io.Reader { return &endless })
	m = collect(t, sourceOf(grow, grow, grow), Options{MaxBytes: 1 << 20, Unchanged: inputs})
	if len(m.Artifacts) != 0 || m.Dropped != 3 || endless > 1<<20+1 {
		t.Errorf("got %+v after %d bytes", m, endless)
	}
}
