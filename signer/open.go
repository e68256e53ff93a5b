package signer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// errIrregular is for what can't be read to an end.
var errIrregular = errors.New("it is no regular file")

// opener opens files by name: package os, or one directory that nothing leads out of.
type opener interface {
	Stat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
}

type anywhere struct{}

func (anywhere) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (anywhere) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

// Open opens a file for reading. What is none is refused, without waiting for it.
func Open(path string) (*os.File, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, bare(err))
	}
	return f, nil
}

// openRegular opens a file for reading, and does not touch or wait for what is none. Its path may
// have links.
func openRegular(path string) (*os.File, fs.FileInfo, error) { return openIn(anywhere{}, path) }

// openIn looks before it opens, since opening a device can do things, and again afterwards, since
// something else can have come in its place.
func openIn(o opener, name string) (*os.File, fs.FileInfo, error) {
	info, err := o.Stat(name)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := o.OpenFile(name, os.O_RDONLY|dontBlock, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func regular(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%w but a directory", errIrregular)
	case mode&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%w but a FIFO", errIrregular)
	case mode&fs.ModeSocket != 0:
		return fmt.Errorf("%w but a socket", errIrregular)
	case mode&fs.ModeDevice != 0:
		return fmt.Errorf("%w but a device", errIrregular)
	}
	return errIrregular
}
