package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// errIrregular is the error for a file without a definite end.
var errIrregular = errors.New("it is not a regular file")

// Open opens a regular file for reading. It refuses any other file without waiting for it.
func Open(path string) (*os.File, error) {
	f, _, err := OpenIn(os.Stat, os.OpenFile, path)
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	return f, nil
}

// ReadSmall reads an untrusted regular file of at most max bytes.
func ReadSmall(path string, max int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%q is larger than %d bytes", path, max)
	}
	return text, err
}

// OpenIn opens a regular file with the functions of package os, or of an os.Root, and neither opens nor waits for
// anything else. It checks before opening, since opening a device can have effects, and again afterwards, since the
// file may have been replaced. The path may have links.
func OpenIn(stat func(string) (fs.FileInfo, error), open func(string, int, fs.FileMode) (*os.File, error), name string) (*os.File,
	fs.FileInfo, error) {
	info, err := stat(name)
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := open(name, os.O_RDONLY|NoWait, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func checkRegular(info fs.FileInfo) error {
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
