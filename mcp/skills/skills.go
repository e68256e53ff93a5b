// Package skills reads skills from a directory, in the Agent Skills format: each is a directory with a SKILL.md,
// whose YAML front matter has its name and description, and other files that the text refers to. Links can't lead out
// of the directory.
package skills

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a skill.
const (
	maxSkills      = 200
	maxBody        = 256 << 10 // bytes of a SKILL.md
	maxFiles       = 200       // of one skill, besides its SKILL.md
	maxEntries     = 2000      // directory entries examined for them
	maxFile        = 1 << 20   // bytes of one file
	maxDescription = 1024      // characters
)

// Main is the file that makes a directory a skill.
const Main = "SKILL.md"

// ErrUnknown is the error for an unknown skill or file.
var ErrUnknown = errors.New("skill or file not found")

// Skill has the description of a skill, for a model, and its text.
type Skill struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Body        string `yaml:"-"` // SKILL.md without its front matter
}

// File is another file of a skill.
type File struct {
	Name string // relative to the skill, with slashes
	Size int64
}

// Directory reads skills from the disk at each call. Its methods may be called concurrently.
type Directory struct {
	root *os.Root
	log  *slog.Logger

	mu       sync.Mutex
	reported map[string]string // last reported error, by directory
}

// Open opens a directory of skills, to be closed.
func Open(dir string, log *slog.Logger) (*Directory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of skills: %w", err)
	}
	return &Directory{root: root, log: log, reported: map[string]string{}}, nil
}

func (d *Directory) Close() error { return d.root.Close() }

// List returns the skills by name. Invalid skills are left out and logged, once for each reason.
func (d *Directory) List() ([]Skill, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	if len(entries) > maxSkills {
		d.report(".", fmt.Sprintf("only the first %d skills are read", maxSkills))
		entries = entries[:maxSkills]
	}
	all := []Skill{}
	for _, e := range entries {
		name := e.Name()
		s, err := d.Get(name)
		if errors.Is(err, ErrUnknown) { // a file, or a directory without a SKILL.md
			continue
		}
		why := ""
		if err != nil {
			why = err.Error()
		}
		if d.report(name, why); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

// report logs the fault of a skill, unless it is already logged.
func (d *Directory) report(name, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reported[name] == why {
		return
	}
	if d.reported[name] = why; why != "" {
		d.log.Warn("skipped a skill", "skill", name, "why", why)
	}
}

var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`) })

// Get reads the SKILL.md of a skill.
func (d *Directory) Get(name string) (Skill, error) {
	if name == "" || strings.ContainsAny(name, `/\`) || name[0] == '.' {
		return Skill{}, ErrUnknown
	}
	text, err := d.readRegular(name+"/"+Main, maxBody)
	if err != nil {
		return Skill{}, err
	}
	s, err := parse(text)
	switch {
	case err != nil:
		return Skill{}, err
	case !validName().MatchString(s.Name) || len(s.Name) > 64:
		return Skill{}, fmt.Errorf("the name %.80q must be lower-case letters, digits and single hyphens, 64 at most", s.Name)
	case s.Name != name:
		return Skill{}, fmt.Errorf("the name is %q, but the directory is %q", s.Name, name)
	case strings.TrimSpace(s.Description) == "" || utf8.RuneCountInString(s.Description) > maxDescription:
		return Skill{}, fmt.Errorf("the description must have 1 to %d characters", maxDescription)
	}
	return s, nil
}

// parse splits a SKILL.md into front matter and body.
func parse(text []byte) (s Skill, err error) {
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	rest, found := bytes.CutPrefix(text, []byte("---\n"))
	front, body, closed := bytes.Cut(rest, []byte("\n---\n"))
	if !closed {
		front, closed = bytes.CutSuffix(rest, []byte("\n---"))
	}
	switch {
	case !utf8.Valid(text):
		return s, errors.New("not UTF-8")
	case !found || !closed:
		return s, errors.New("front matter between two lines of --- is missing")
	}
	if err := yaml.Unmarshal(front, &s); err != nil {
		return s, fmt.Errorf("the front matter must be YAML with a name and a description: %.300v", err)
	}
	s.Body = strings.TrimSpace(string(body))
	return s, nil
}

// Files lists the other files of a skill.
func (d *Directory) Files(name string) (files []File, err error) {
	if _, err := d.Get(name); err != nil {
		return nil, err
	}
	seen := 0
	err = fs.WalkDir(d.root.FS(), name, func(file string, e fs.DirEntry, err error) error {
		seen++
		switch {
		case seen > maxEntries || len(files) == maxFiles:
			return fs.SkipAll
		case err != nil || e.Name()[0] == '.' && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular() || e.Name()[0] == '.' || file == name+"/"+Main:
			return nil
		}
		if info, err := e.Info(); err == nil {
			files = append(files, File{strings.TrimPrefix(file, name+"/"), info.Size()})
		}
		return nil
	})
	return files, err
}

// Read returns a file of a skill.
func (d *Directory) Read(name, file string) ([]byte, error) {
	if _, err := d.Get(name); err != nil {
		return nil, err
	}
	if !fs.ValidPath(file) || file == "." || slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool { return part[0] == '.' }) {
		return nil, ErrUnknown
	}
	return d.readRegular(path.Join(name, file), maxFile)
}

// readRegular returns the content of a regular file in the directory. Links can't lead out of it, and opening a named
// pipe does not block.
func (d *Directory) readRegular(name string, limit int64) ([]byte, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path.Base(name))
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is too large: the maximum is %d KiB", path.Base(name), limit>>10)
	}
	return text, err
}
