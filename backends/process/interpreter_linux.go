package process

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// runtime finds the interpreter for a language, and caches it.
func (b *Backend) runtime(ctx context.Context, language string) (runtimes.Runtime, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.found[language]; ok {
		return r, nil
	}
	r, err := runtimes.FindRuntime(ctx, language, runtimes.FromOS())
	if err != nil {
		return r, err
	}
	if b.root && r.Private {
		return r, fmt.Errorf("%s: %s", r.Path, r.Why)
	}
	b.found[language] = r
	return r, nil
}

// allRuntimes merges the usable interpreters of all languages for a command, which may start any of them. In the
// profile "landlock", sandboxes started by root can't enter directories that are closed to others.
func (b *Backend) allRuntimes(ctx context.Context, landlockOnly bool) (all runtimes.Runtime, each []runtimes.Runtime) {
	for _, language := range backends.Languages {
		r, err := b.runtime(ctx, language)
		if err != nil || b.root && landlockOnly && closedParent(r.Path) != "" {
			continue
		}
		each = append(each, r)
	}
	return runtimes.Merge(backends.AnyProgram, each), each
}

// closedParent returns the parent directory of name that other users can't enter, "" if there is none.
func closedParent(name string) string {
	for dir := filepath.Dir(name); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return dir
		}
	}
	return ""
}

// Runtime returns the interpreter for a language, without its version; if there is none, Why has the reason.
func (b *Backend) Runtime(ctx context.Context, language string) backends.Runtime {
	return b.describe(ctx, language, false)
}

// describe describes the interpreter for a language, with its version if versioned.
func (b *Backend) describe(ctx context.Context, language string, versioned bool) backends.Runtime {
	r, err := b.runtime(ctx, language)
	var version string
	if err == nil && versioned {
		version, err = runtimes.QueryVersion(ctx, r)
	}
	if err != nil {
		return backends.Runtime{Name: language, Why: remedy.Text{err.Error()}}
	}
	return backends.Runtime{Name: language, Path: r.Path, Version: version, Why: remedy.Text{r.Why}}
}

// resolve replaces args[0] if it is the name of a runtime, and returns the candidate paths of the program inside.
func (s *Sandbox) resolve(args, env []string) []string {
	name := args[0]
	for _, r := range append(slices.Clone(s.joined), s.runtime) {
		own := name == r.Name && (s.joined == nil || name == "python" || name == "node") // "r" is another program
		if own || name == "bash" && r.Name == "shell" {
			args[0] = r.Argv0
			if filepath.IsAbs(args[0]) {
				return []string{args[0]}
			}
			return []string{r.Path}
		}
	}
	if strings.Contains(name, "/") {
		return []string{s.insidePath(name)}
	}
	var places []string
	for dir := range strings.SplitSeq(searchPath(env), ":") {
		if dir != "" { // otherwise it is the working directory
			dir = s.insidePath(dir)
		}
		places = append(places, filepath.Join(dir, name))
	}
	return places
}

// searchPath returns the PATH of an environment.
func searchPath(env []string) (path string) {
	for _, kv := range env {
		if p, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = p
		}
	}
	return path
}

func (s *Sandbox) programPath() string {
	return strings.Join(append(slices.Clone(s.runtime.PathDirs), runtimes.SystemPath), ":")
}

// Environ returns the program's complete environment. Caches and settings go to /tmp, so that the workspace
// contains only the program's own files.
func (s *Sandbox) Environ(extra []string) []string {
	home, tmp := workspace, "/tmp"
	user := "sandbox"
	switch {
	case s.host.Propose && s.landlockOnly:
		home, tmp = s.tmp, s.tmp
	case s.landlockOnly:
		home, tmp = s.dir, s.tmp
	case s.home != "":
		user, home = backends.Spec{Home: s.home}.User()
	case s.host.Propose: // otherwise caches of tools would be proposed, too
		home = tmp
	}
	// Numeric libraries start one thread per CPU of the machine, which the limits may not allow.
	threads := strconv.Itoa(max(1, int(s.limits.CPU)))
	env := append(backends.RuntimeVariables(s.limits, runtime.NumCPU()), strings.Split( // splitting one string costs less than one append each
		"OMP_NUM_THREADS="+threads+"\x00OPENBLAS_NUM_THREADS="+threads+
			// The leak checker starts with ptrace, and fails the program if that is refused.
			"\x00ASAN_OPTIONS=detect_leaks=0\x00LSAN_OPTIONS=detect_leaks=0"+
			"\x00PATH="+s.programPath()+"\x00HOME="+home+"\x00USER="+user+"\x00LOGNAME="+user+"\x00SHELL=/bin/sh"+
			"\x00LANG=C.UTF-8\x00TMPDIR="+tmp+"\x00XDG_CACHE_HOME="+tmp+"/.cache\x00XDG_CONFIG_HOME="+tmp+"/.config"+
			"\x00npm_config_cache="+tmp+"/.npm"+
			"\x00PYTHONUNBUFFERED=1\x00PYTHONDONTWRITEBYTECODE=1", "\x00")...)
	if s.host.Host != "" { // git refuses directories of other owners, unless they are declared safe
		env = append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	}
	if s.landlockOnly { // otherwise git sees the host's settings, can't read them, and fails
		env = append(env, "GIT_CONFIG_NOSYSTEM=1")
	}
	return mergeEnv(env, extra)
}

// mergeEnv adds extra to env, and uses its memory; later entries override earlier ones, and each name appears once.
func mergeEnv(env, extra []string) []string {
	all := append(env, extra...)
	at, out := make(map[string]int, len(all)), all[:0]
	for _, kv := range all {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

// insidePath returns the path of a command's directory inside: in the profile "landlock" the workspace is
// elsewhere.
func (s *Sandbox) insidePath(dir string) string {
	dir = cmp.Or(dir, s.home, workspace)
	if s.landlockOnly && paths.Within(dir, workspace) {
		rest, _ := filepath.Rel(workspace, dir)
		return filepath.Join(s.dir, rest)
	}
	return dir
}
