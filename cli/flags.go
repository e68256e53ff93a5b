package cli

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

func jsonFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print it as JSON"} }

func outFlag() cli.Flag {
	return &cli.StringFlag{Name: "out", Usage: "write it to the new file `FILE` instead of standard output"}
}

func keyFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "key", Usage: "trust `KEY` only, a file of sandboxmcp key export (may be given more than once)"}
}

// writeOut lets f write to the new file at path, or to standard output for "" and "-". What was begun and
// could not be finished is removed: half an export would be taken for a whole one. Nobody else may read it:
// others' names and hosts are in it.
func (p *program) writeOut(path string, f func(io.Writer) error) error {
	return p.writeOutAs(path, 0o600, f)
}

// writeOutAs is writeOut with the mode of the file.
func (p *program) writeOutAs(path string, mode fs.FileMode, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		return f(p.stdout)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return exit.Fail("give the name of a new file", "%v", err)
	}
	w := bufio.NewWriterSize(file, 1<<16)
	err = f(w)
	if err := errors.Join(err, w.Flush(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
