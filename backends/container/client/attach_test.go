package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// frame returns a frame as the engine sends it.
func frame(stream byte, size int, content string) string {
	h := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(h[4:], uint32(size))
	return string(h) + content
}

func full(stream byte, content string) string { return frame(stream, len(content), content) }

func TestOutput(t *testing.T) {
	for _, c := range []struct{ name, in, stdout, stderr, err string }{
		{"both", full(1, "ab") + full(2, "xy") + full(1, "") + full(0, "c"), "abc", "xy", ""},
		{"nothing", "", "", "", ""},
		{"cut in a header", full(1, "a") + "\x01\x00", "a", "", "unexpected EOF"},
		{"cut in output", frame(1, 5, "abc"), "abc", "", "unexpected EOF"},
		{"cut in errors", frame(2, 5, "abc"), "", "abc", "unexpected EOF"},
		{"claims four gigabytes", frame(1, 1<<32-1, "abc"), "abc", "", "unexpected EOF"},
		{"the engine's words", full(3, "it \x1b[31mbroke"), "", "", "it [31mbroke"},
		{"no such stream", full(9, "x"), "", "", "stream 9"},
	} {
		for name, reader := range map[string]io.Reader{"at once": strings.NewReader(c.in),
			"by bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			var stderr bytes.Buffer
			out, err := io.ReadAll(demultiplex(reader, &stderr))
			if string(out) != c.stdout || stderr.String() != c.stderr || (err == nil) != (c.err == "") || err != nil &&
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, %s: got %q, %q, %v", c.name, name, out, stderr.String(), err)
			}
		}
	}
	// An unread standard error does not block the output.
	out, err := io.ReadAll(demultiplex(strings.NewReader(full(2, "xy")+full(1, "a")), closed{}))
	if string(out) != "a" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func FuzzOutput(f *testing.F) {
	f.Add([]byte(full(1, "a")+full(2, "b")), 3)
	f.Add([]byte(frame(1, 1<<32-1, "")), 1)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		var stderr bytes.Buffer
		s := demultiplex(bytes.NewReader(in), &stderr)
		b := make([]byte, 1+uint(size)%100)
		total := 0
		for {
			n, err := s.Read(b)
			if n < 0 || n > len(b) {
				t.Fatalf("read %d of %d", n, len(b))
			}
			total += n
			if err != nil {
				break
			}
		}
		if total+stderr.Len() > len(in) {
			t.Errorf("got %d and %d bytes of %d", total, stderr.Len(), len(in))
		}
	})
}
