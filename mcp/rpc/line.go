package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds a line of input, in bytes: 20 MB of files in base64, and some room.
const maxLine = 32 << 20

type inputLine struct {
	text []byte
	// size is the length in bytes of a line over maxLine, of which text has the beginning and the end; 0 otherwise.
	size int64
}

// readLines calls handle with each line until in ends or handle returns false.
func readLines(in io.Reader, handle func(inputLine) (more bool)) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		l, err := readLine(r)
		if len(l.text) > 0 && !handle(l) {
			return
		}
		if err != nil { // io.EOF, or an unreadable stdin: both end the connection
			return
		}
	}
}

// readLine reads up to the next newline, which it drops. It holds at most maxLine bytes.
func readLine(r *bufio.Reader) (l inputLine, err error) {
	const ends = 4 << 10 // of a line that is too long
	for {
		part, err := r.ReadSlice('\n')
		if l.size > 0 {
			l.size += int64(len(part))
			l.text = append(l.text[:ends], lastBytes(append(l.text[ends:], part...), ends)...)
		} else if l.text = append(l.text, part...); len(l.text) > maxLine+1 {
			l.size = int64(len(l.text))
			l.text = append(l.text[:ends:ends], lastBytes(l.text[ends:], ends)...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			l.text = bytes.TrimSpace(bytes.TrimPrefix(l.text, []byte("\ufeff"))) // PowerShell's pipes begin with a byte order mark
			return l, err
		}
	}
}

func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
