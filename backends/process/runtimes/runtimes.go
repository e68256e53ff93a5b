// Package runtimes finds the interpreter that a user means by "python", "node", "shell" or "r", and the host
// directories that it needs.
//
// Every run from the command line pays for the search: a system interpreter costs some stat(2) calls. For a shim,
// the version manager is asked for the program, which takes some 70 ms for pyenv, and an unknown wrapper script is
// executed, once: the answer is cached until a file or a variable changes that may have determined it.
package runtimes

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// Runtime is one interpreter of the host.
type Runtime struct {
	Name string // "python", "node", "shell" or "r"
	Path string // the program itself: shims and links resolved

	// Argv0 is the required argv[0]: it tells Python where pyvenv.cfg is, and busybox its applet. If it is
	// absolute, it resolves to Path also inside, with Prefixes and Links.
	Argv0 string

	// Prefixes are host directories that must be visible inside, read-only, at the same path. They are absolute,
	// none is inside another, and each is a directory after following links. None is a system directory (/usr and
	// its siblings), the home directory, or a parent of that.
	Prefixes []string

	// Links are symbolic links, by absolute path, that must exist inside, with their targets: the steps between a
	// virtual environment and its base that are in no prefix. Usually nil.
	Links map[string]string

	// PathDirs precede the system's PATH inside, so that python3, pip, node and npm found by name belong to this
	// interpreter.
	PathDirs []string

	Version string // if known without execution; QueryVersion asks the interpreter
	Why     string // how it was found, or why not and what to install

	// Private means that other users can't read or execute it, so that a sandbox whose host uid differs from the
	// owner's can't run it. Why then contains the command to type.
	Private bool
}

// Env is the part of the caller's environment that the search uses.
type Env struct {
	Path  string              // the search path
	Home  string              // never mounted, nor a parent of it
	Dir   string              // working directory: version files are searched for in it and its parents
	Get   func(string) string // other environment variables
	Cache string              // directory for the results of wrappers; "" caches nothing
}

// FromOS returns this process's environment.
func FromOS() Env {
	e := Env{Path: os.Getenv("PATH"), Home: os.Getenv("HOME"), Get: os.Getenv}
	if e.Home == "" {
		if u, err := user.Current(); err == nil {
			e.Home = u.HomeDir
		}
	}
	e.Dir, _ = os.Getwd()
	if dir, err := os.UserCacheDir(); err == nil {
		e.Cache = filepath.Join(dir, "sandboxmcp", "runtimes")
	}
	return e
}

// MissingError is the error for an interpreter that does not exist or can't be used.
type MissingError struct {
	Language string
	Reason   string // the search, and the faults of the candidates
	Remedy   string // what to install
}

func (m *MissingError) Error() string {
	return fmt.Sprintf("no %s: %s (%s)", m.Language, m.Reason, m.Remedy)
}

// language describes one language for Find.
type language struct {
	name     string
	programs []string // in order of preference
	remedy   string
}

// languageOf returns the language with that name, and whether it is known.
func languageOf(name string) (language, bool) {
	switch name {
	case "python":
		return language{name, []string{"python3", "python"},
			"install it: apt install python3, dnf install python3, apk add python3"}, true
	case "node":
		return language{name, []string{"node", "nodejs"},
			"install it: apt install nodejs, dnf install nodejs, apk add nodejs"}, true
	case "shell":
		return language{name, []string{"bash", "sh"},
			"install it: apt install bash, dnf install bash, apk add bash"}, true
	case "r":
		// R itself is a script with an interactive command line; Rscript runs scripts.
		return language{name, []string{"Rscript"},
			"install it: apt install r-base-core, dnf install R-core, apk add R"}, true
	}
	return language{}, false
}

// FindRuntime returns the interpreter for "python", "node", "shell" or "r" that the user would get by typing its
// name. If there is none, the error is a *MissingError and the Runtime has only Name and Why.
func FindRuntime(ctx context.Context, name string, env Env) (Runtime, error) {
	l, ok := languageOf(name)
	if !ok {
		return Runtime{Name: name}, &MissingError{name, "unknown language", "use python, node, shell or r"}
	}
	f := &finder{language: l, env: env}
	for c := range f.candidates() {
		r, err := f.resolve(ctx, c)
		if err == nil {
			r.Why = strings.Join(append([]string{r.Why}, f.notes...), "; ")
			return r, nil
		}
		if ctx.Err() != nil {
			return Runtime{Name: name}, ctx.Err()
		}
		f.addNote("%v", err)
	}
	f.notes = append([]string{strings.Join(l.programs, " and ") + " not found on PATH"}, f.notes...)
	m := &MissingError{name, strings.Join(f.notes, "; "), l.remedy}
	return Runtime{Name: name, Why: m.Reason + " (" + m.Remedy + ")"}, m
}

// finder is the state of one search. Its notes are the rejected candidates, with reasons.
type finder struct {
	language
	env   Env
	notes []string
}

// addNote adds a note unless it exists already.
func (f *finder) addNote(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(f.notes, s) {
		f.notes = append(f.notes, s)
	}
}

// resolve converts a candidate to a Runtime: the program behind a shim, and its directories.
func (f *finder) resolve(ctx context.Context, c candidate) (Runtime, error) {
	path := filepath.Join(c.dir, c.name)
	target, how, err := f.programBehind(ctx, path)
	if err != nil {
		return Runtime{}, err
	}
	how = cmp.Or(how, c.how)
	r, err := f.layout(target)
	if err != nil {
		return Runtime{}, err
	}
	if strings.HasPrefix(filepath.Base(r.Path), "python2") {
		return Runtime{}, fmt.Errorf("%s is Python 2", path)
	}
	if r.Why != "" {
		how = r.Why + ", " + how
	}
	r.Name, r.Why = f.name, how
	r.PathDirs = f.pathDirs(r)
	if closed, private := closedDir(r); private {
		r.Private = true
		r.Why += fmt.Sprintf("; other users can't use it: chmod o+rX %s", closed)
	}
	return r, nil
}
