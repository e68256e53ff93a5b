package podman

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrames(t *testing.T) {
	for _, test := range []struct {
		name, in, stdout, stderr string
		err                      error
	}{
		{"empty", "", "", "", nil},
		{"both", "\x01\x00\x00\x00\x00\x00\x00\x02ab\x02\x00\x00\x00\x00\x00\x00\x01e\x01\x00\x00\x00\x00\x00\x00\x01c", "abc", "e", nil},
		{"nothing in a piece", "\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01c", "c", "", nil},
		{"cut in a head", "\x01\x00\x00", "", "", io.ErrUnexpectedEOF},
		{"cut in output", "\x01\x00\x00\x00\x00\x00\x00\x09ab", "ab", "", io.ErrUnexpectedEOF},
		{"cut in errors", "\x02\x00\x00\x00\x00\x00\x00\x09ab", "", "ab", io.ErrUnexpectedEOF},
		{"no such stream", "\x07\x00\x00\x00\x00\x00\x00\x01a", "", "", errAny},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			got, err := io.ReadAll(&frames{from: iotest.OneByteReader(strings.NewReader(test.in)), stderr: &stderr})
			if string(got) != test.stdout || stderr.String() != test.stderr {
				t.Errorf("got %q and %q, want %q and %q", got, stderr.String(), test.stdout, test.stderr)
			}
			if test.err == errAny && err == nil || test.err != errAny && !errors.Is(err, test.err) {
				t.Errorf("got error %v, want %v", err, test.err)
			}
		})
	}
}

var errAny = errors.New("any")

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x02ab\x02\x00\x00\x00\x00\x00\x00\x01e"))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xffab"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var stderr bytes.Buffer
		got, _ := io.ReadAll(&frames{from: bytes.NewReader(in), stderr: &stderr})
		if len(got)+stderr.Len() > len(in) {
			t.Errorf("%d bytes came out of %d", len(got)+stderr.Len(), len(in))
		}
	})
}
