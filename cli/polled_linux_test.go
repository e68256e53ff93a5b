package cli

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPolled reads lines from clients of stdin, each after the one before was read, up to the end, and checks that
// stdin still blocks for others.
func TestPolled(t *testing.T) {
	pipe := func() (ends [2]int, err error) { return ends, unix.Pipe2(ends[:], unix.O_CLOEXEC) }
	pair := func() ([2]int, error) { return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }
	for name, open := range map[string]func() ([2]int, error){"pipe": pipe, "socket": pair} {
		t.Run(name, func(t *testing.T) {
			ends, err := open()
			if err != nil {
				t.Fatal(err)
			}
			in, out := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ends[1]), "out")
			defer in.Close()
			defer out.Close()
			r := pollable(in)
			if r == io.Reader(in) {
				t.Fatal("it is not polled")
			}
			lines := bufio.NewReader(r)
			for _, text := range []string{"1\n", strings.Repeat("x", 32<<10) + "\n", "\n"} {
				go func() { out.WriteString(text) }()
				if got, err := lines.ReadString('\n'); got != text || err != nil {
					t.Fatalf("%d bytes, %v; want %d", len(got), err, len(text))
				}
			}
			if flags, err := unix.FcntlInt(in.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("flags %#x, %v", flags, err)
			}
			out.Close()
			if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
				t.Errorf("%q, %v at its end", rest, err)
			}
		})
	}
	for _, r := range []io.Reader{strings.NewReader(""), openFIFO(t, os.DevNull), openFIFO(t, t.TempDir())} {
		if pollable(r) != r {
			t.Errorf("%T is polled", r)
		}
	}
}

func openFIFO(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
