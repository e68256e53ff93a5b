package cli

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/plain"
)

// writeOut lets f write to the new file at path, or to standard output for "" and "-". What was begun and
// could not be finished is removed: half an export would be taken for a whole one.
func (p *program) writeOut(path string, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		return f(p.stdout)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // others' names and hosts are in it
	if err != nil {
		return fail("--out needs the name of a new file", "%v", err)
	}
	w := bufio.NewWriterSize(file, 1<<16)
	err = f(w)
	if err := errors.Join(err, w.Flush(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// screen shows lines of JSON on a terminal: each Write is one, and keeps its value.
type screen struct{ w io.Writer }

func (s screen) Write(line []byte) (int, error) {
	if _, err := s.w.Write(plain.JSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
