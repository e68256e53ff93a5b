package runtimes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// behind returns the program that a version manager's shim would start, and the reason. A program that is no shim is
// returned itself, with an empty reason.
func (f *finder) behind(ctx context.Context, path string) (target, how string, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", "", err
	}
	// These managers' shims are links to one program that reads argv[0].
	switch filepath.Base(real) {
	case "mise", "rtx":
		return f.choose(path, f.mise())
	case "volta-shim", "volta":
		return f.choose(path, f.volta())
	case "snap":
		return "", "", fmt.Errorf("%s is a snap, and snapd, which starts it, can't be reached from inside", path)
	}
	start, err := readStart(real)
	if err != nil {
		return "", "", err
	}
	if !bytes.HasPrefix(start, []byte("#!")) {
		return path, "", nil
	}
	switch text := string(start); {
	case strings.Contains(text, "pyenv"):
		return f.choose(path, f.versions(path, "pyenv", "PYENV", ".python-version"))
	case strings.Contains(text, "nodenv"):
		return f.choose(path, f.versions(path, "nodenv", "NODENV", ".node-version"))
	case strings.Contains(text, "asdf exec"):
		return f.choose(path, f.asdf())
	}
	return f.ask(ctx, path)
}

// readStart returns the first bytes of a script, or two bytes of another program.
func readStart(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	buf := make([]byte, 2)
	if _, err := io.ReadFull(file, buf); err != nil || string(buf) != "#!" {
		return buf, nil
	}
	rest, err := io.ReadAll(io.LimitReader(file, 4096))
	return append(buf, rest...), err
}

// above yields dir and its parents, up to the root.
func above(dir string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !filepath.IsAbs(dir) {
			return
		}
		for dir = filepath.Clean(dir); yield(dir) && dir != "/"; {
			dir = filepath.Dir(dir)
		}
	}
}

// readSmall reads a version or configuration file. Those are small; another file of that name is not read whole, and a fifo
// is not opened at all.
func readSmall(path string) (string, bool) {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return "", false
	}
	file, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, 4<<20))
	return string(b), err == nil
}

// words returns the words of each line, without comments.
func words(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if w := strings.Fields(line); len(w) > 0 {
			out = append(out, w)
		}
	}
	return out
}

// home returns a path below the home directory, "" if that is not known.
func (f *finder) home(elem ...string) string {
	if f.env.Home == "" {
		return ""
	}
	return filepath.Join(append([]string{f.env.Home}, elem...)...)
}
