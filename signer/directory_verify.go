package signer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Sum is a file's line in a list of sums.
type Sum struct {
	Name   string
	SHA256 string // lower-case hex
}

// Directory is a directory with files to verify.
type Directory struct {
	Path string
	// AllowExtra permits unlisted files. SHA256SUMS and the receipt are always permitted.
	AllowExtra bool
	// AllowedNames are names of further permitted files.
	AllowedNames []string
}

// maxExtra is the maximum number of problems about unlisted files.
const maxExtra = 1000

// verify compares the files of a directory with their sums. An error means that the directory can't be read.
func (d Directory) verify(sums []Sum) ([]Problem, error) {
	top, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, fmt.Errorf("open the directory: %w", err)
	}
	defer top.Close()
	var problems []Problem
	known := map[string]bool{sumsName: true, ReceiptName: true}
	for _, name := range d.AllowedNames {
		known[name] = true
	}
	for _, s := range sums {
		name := path.Clean(s.Name)
		if !filepath.IsLocal(s.Name) || strings.ContainsRune(s.Name, 0) || name == "." {
			problems = append(problems, Problem{Kind: BadPath, Name: escapeInvalidUTF8(s.Name),
				Why: "its name leads out of the directory, so it was not opened"})
			continue
		}
		known[name] = true
		if p := verifyFile(top, name, s); p != nil {
			problems = append(problems, *p)
		}
	}
	if d.AllowExtra {
		return problems, nil
	}
	more, err := extraFiles(d.Path, known)
	return append(problems, more...), err
}

func verifyFile(top *os.Root, name string, s Sum) *Problem {
	f, _, err := statefile.OpenIn(top.Stat, top.OpenFile, name)
	if err != nil {
		return openProblem(escapeInvalidUTF8(name), err)
	}
	defer f.Close()
	got, err := Hash(f)
	switch {
	case err != nil:
		return &Problem{Kind: Unreadable, Name: escapeInvalidUTF8(name), Why: WithoutPaths(err).Error()}
	case got != s.SHA256:
		return &Problem{Kind: Changed, Name: escapeInvalidUTF8(name), Why: "its SHA-256 does not match", Want: s.SHA256, Got: got}
	}
	return nil
}

// openProblem returns the problem of a file that could not be opened.
func openProblem(name string, err error) *Problem {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &Problem{Kind: Missing, Name: name, Why: "it is not there"}
	case strings.Contains(err.Error(), "escapes from parent"): // package os has no error to match
		return &Problem{Kind: BadPath, Name: name, Why: "a link leads out of the directory, so it was not opened"}
	}
	return &Problem{Kind: Unreadable, Name: name, Why: WithoutPaths(err).Error()}
}

// extraFiles returns a problem for each unknown file below dir.
func extraFiles(dir string, known map[string]bool) (problems []Problem, err error) {
	more := 0
	// The dot follows dir if it is a link. A file that disappears meanwhile is not extra.
	err = filepath.WalkDir(dir+string(filepath.Separator)+".", func(file string, d fs.DirEntry, err error) error {
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil || known[filepath.ToSlash(name)] {
			return err
		}
		if len(problems) == maxExtra {
			more++
			return nil
		}
		problems = append(problems, Problem{Kind: Extra, Name: escapeInvalidUTF8(filepath.ToSlash(name)), Why: "it is not listed"})
		return nil
	})
	if more > 0 {
		problems = append(problems, Problem{Kind: Extra, Why: fmt.Sprintf("%d more files are not listed", more)})
	}
	return problems, err
}

// Hash returns the SHA-256 of the whole of r.
func Hash(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ParseHash parses a SHA-256 in hex of any case, with or without the prefix "sha256:".
func ParseHash(text string) (string, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	s = strings.TrimPrefix(s, "sha256:")
	if !isHash(s) {
		return "", fmt.Errorf("%q is not a SHA-256 (64 hexadecimal digits)", clip(text))
	}
	return s, nil
}
