package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the longest line that is read, in bytes: files of 20 MB in base64, and some room.
const maxLine = 32 << 20

// line is a line of input.
type line struct {
	text []byte
	// long is how many bytes it has when that is more than maxLine; text is its beginning and end.
	long int64
}

// readLines has each line taken until in ends, or take wants no more.
func readLines(in io.Reader, take func(line) (more bool)) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		l, err := readLine(r)
		if len(l.text) > 0 && !take(l) {
			return
		}
		if err != nil { // io.EOF, or a stdin that can't be read any more: the same to us
			return
		}
	}
}

// readLine reads up to the next newline, which is left out, and never holds more than maxLine.
func readLine(r *bufio.Reader) (l line, err error) {
	const ends = 4 << 10 // of a line that is too long
	for {
		part, err := r.ReadSlice('\n')
		if l.long > 0 {
			l.long += int64(len(part))
			l.text = append(l.text[:ends], lastBytes(append(l.text[ends:], part...), ends)...)
		} else if l.text = append(l.text, part...); len(l.text) > maxLine+1 {
			l.long = int64(len(l.text))
			l.text = append(l.text[:ends:ends], lastBytes(l.text[ends:], ends)...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			l.text = bytes.TrimSpace(bytes.TrimPrefix(l.text, []byte("\ufeff"))) // PowerShell's pipes begin with it
			return l, err
		}
	}
}

func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
