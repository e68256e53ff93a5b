package runtimes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// answerTime bounds the execution of a program that reports its path or version.
const answerTime = 5 * time.Second

// startsManager matches the version manager in a shim: exec "/home/u/.pyenv/libexec/pyenv" exec "$program" "$@"
var startsManager = lazy.Regexp(`(?m)^\s*exec "?([^"\s]+)"? exec `)

// programBehind returns the program that a version manager's shim, or another script, would start, and the reason.
// It returns a program that is not a script unchanged, with an empty reason.
func (f *finder) programBehind(ctx context.Context, path string) (target, how string, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", "", err
	}
	start := readHead(real)
	manager := startsManager().FindStringSubmatch(start)
	switch name := filepath.Base(real); {
	case name == "snap":
		return "", "", fmt.Errorf("%s is a snap, and snapd, which starts it, can't be reached from inside", path)
	case name == "mise" || name == "rtx": // reads argv[0]
		return f.askManager(ctx, path, real)
	case name == "volta-shim":
		return f.askManager(ctx, path, filepath.Join(filepath.Dir(real), "volta"))
	case !strings.HasPrefix(start, "#!"):
		return path, "", nil
	case manager != nil:
		return f.askManager(ctx, path, manager[1])
	case f.name == "python":
		target, err = f.askShim(ctx, path, path, "-I", "-S", "-c", "import sys; print(sys.executable)")
	case f.name == "node":
		target, err = f.askShim(ctx, path, path, "-p", "process.execPath")
	default:
		return path, "", nil
	}
	return target, "behind the script " + path, err
}

// askManager asks a version manager for the program that its shim would start here. A project chooses versions, and
// some managers accept a path as one: a program outside of the manager's own directory is ignored, since we start
// it outside of any sandbox to query its version.
func (f *finder) askManager(ctx context.Context, shim, manager string) (target, how string, err error) {
	root := filepath.Dir(filepath.Dir(shim))
	for _, dir := range f.trustedPathDirs() {
		if path := filepath.Join(dir, manager); !filepath.IsAbs(manager) && isExecutable(path) {
			manager = path
		}
	}
	target, err = f.askShim(ctx, shim, manager, "which", filepath.Base(shim))
	if err == nil && (!paths.Within(filepath.Clean(target), root) || paths.Within(f.env.Dir, root)) {
		err = fmt.Errorf("%s selects %s for %s, which is not one of its own", filepath.Base(manager), target, shim)
	}
	return target, "chosen by " + filepath.Base(manager), err
}

// managerVariables are the variables by which managers find their files, and people choose versions.
const managerVariables = "PYENV_ROOT PYENV_VERSION NODENV_ROOT NODENV_VERSION ASDF_DIR ASDF_DATA_DIR ASDF_PYTHON_VERSION " +
	"ASDF_NODEJS_VERSION " +
	"ASDF_R_VERSION ASDF_DEFAULT_TOOL_VERSIONS_FILENAME MISE_DATA_DIR MISE_PYTHON_VERSION MISE_NODE_VERSION XDG_DATA_HOME XDG_CONFIG_HOME VOLTA_HOME"

// choosers are the files by which projects and people choose versions; chosen are managers' files below their root.
const (
	choosers = ".python-version .node-version .tool-versions mise.toml .mise.toml mise.local.toml .config/mise.toml " +
		".config/mise/config.toml package.json"
	chosen = "version versions installs/python installs/node installs/nodejs tools/user/platform.json"
)

// askShim asks a program which one a shim starts, and caches the answer until its possible inputs change.
func (f *finder) askShim(ctx context.Context, shim, program string, args ...string) (string, error) {
	env := []string{"PATH=" + strings.Join(f.trustedPathDirs(), ":"), "HOME=" + f.env.Home}
	for name := range strings.FieldsSeq(managerVariables) {
		if value := f.env.Get(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	state, err := f.stateHash(shim, env)
	if err != nil {
		return "", err
	}
	file := filepath.Join(f.env.Cache, state)
	if known := readHead(file); f.env.Cache != "" && isExecutable(known) {
		return known, nil
	}
	target, err := runProgram(ctx, f.env.Dir, program, program, env, args...)
	switch {
	case err != nil:
		return "", err
	case !filepath.IsAbs(target) || !isExecutable(target) || strings.HasPrefix(readHead(target), "#!"):
		return "", fmt.Errorf("%s reports the program %q, which is not one", shim, target)
	case f.env.Cache == "" || os.MkdirAll(f.env.Cache, 0o700) != nil:
		return target, nil
	}
	if fi, err := os.Stat(f.env.Cache); err == nil && fi.Mode().Perm()&0o022 == 0 { // the cached path will be executed
		_ = statefile.Replace(file, "answer", []byte(target), 0o600) // a failure only costs the next run time
	}
	return target, nil
}

// trustedPathDirs lists the directories of PATH in which only trusted users could have put programs.
func (f *finder) trustedPathDirs() []string {
	return slices.DeleteFunc(filepath.SplitList(f.env.Path), func(dir string) bool { return !filepath.IsAbs(dir) || checkSafe(dir) != nil })
}

// stateHash returns a hash of all possible inputs of an answer about a shim: variables, and of files the size, time
// and inode, like ccache. It refuses a FIFO or a device in the place of a file: a manager would block on it.
func (f *finder) stateHash(shim string, env []string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q", env)
	add := func(file string) fs.FileMode {
		fi, err := os.Stat(file)
		if err != nil {
			return 0
		}
		fmt.Fprintf(h, "%q %d %d %d", file, fi.Size(), fi.ModTime().UnixNano(), inode(fi))
		return fi.Mode().Type()
	}
	add(shim)
	for name := range strings.FieldsSeq(chosen) {
		add(filepath.Join(filepath.Dir(filepath.Dir(shim)), name))
	}
	dirs := []string{f.env.Home}
	for dir, last := f.env.Dir, ""; dir != last; dir, last = filepath.Dir(dir), dir {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		for name := range strings.FieldsSeq(choosers) {
			if file := filepath.Join(dir, name); add(file) != 0 {
				return "", fmt.Errorf("%s is not a regular file, and %s would read it", file, shim)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// runProgram runs a program without variables that influence which code it loads.
func runProgram(ctx context.Context, dir, path, argv0 string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append([]string{argv0}, args...)
	cmd.Dir, cmd.Env = dir, append(env, "LANG=C.UTF-8")
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("%s %s: %v: %s", path, args[0], err, text)
	}
	return strings.TrimSpace(out.String()), nil
}

// managedCandidates returns interpreters that version managers have installed without putting them on PATH: nvm and fnm do
// that only in interactive shells, uv and mise only on request.
func (f *finder) managedCandidates() (out []candidate) {
	if f.env.Home == "" {
		return nil
	}
	in := func(variable, dir string) string { return cmp.Or(f.env.Get(variable), dir) }
	data, nvm := in("XDG_DATA_HOME", f.env.Home+"/.local/share"), in("NVM_DIR", f.env.Home+"/.nvm")
	want := "default"
	for range 5 { // an alias may refer to another
		want = cmp.Or(readHead(filepath.Join(nvm, "alias", filepath.Clean("/"+strings.TrimSpace(want)))), want)
	}
	mise := in("MISE_DATA_DIR", data+"/mise") + "/installs/" + f.name
	places := map[string][][3]string{
		"node": {{"nvm", nvm + "/versions/node", strings.TrimSpace(want)}, {"fnm", in("FNM_DIR", data+"/fnm") + "/aliases", "default"},
			{"mise", mise, ""}},
		"python": {{"uv", in("UV_PYTHON_INSTALL_DIR", data+"/uv/python"), ""}, {"mise", mise, ""},
			{"pyenv", in("PYENV_ROOT", f.env.Home+"/.pyenv") + "/versions", ""}},
	}
	for _, place := range places[f.name] {
		version, ok := findInstalled(place[1], place[2])
		if !ok {
			version, _ = findInstalled(place[1], "latest")
		}
		out = append(out, candidate{filepath.Join(place[1], version, "bin"), f.programs[0], fmt.Sprintf("%s %s, which is not on PATH", place[0],
			version)})
	}
	return out
}

// readHead returns the beginning of a file, "" if there is none. It does not open a FIFO.
func readHead(path string) string {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	b, _ := io.ReadAll(io.LimitReader(file, 4096))
	return string(b)
}

// QueryVersion asks the interpreter for its version ("3.11.7") if it is unknown. A shell without --version has
// none.
func QueryVersion(ctx context.Context, r Runtime) (string, error) {
	if r.Version != "" || r.Path == "" {
		return r.Version, nil
	}
	out, err := runProgram(ctx, "", r.Path, r.Argv0, []string{"PATH=" + SystemPath}, "--version")
	if err != nil && r.Name == "shell" {
		return "", nil // dash has no --version
	}
	return versionIn().FindString(out), err
}

// versionIn matches a version in an interpreter's output: at least two numbers.
var versionIn = lazy.Regexp(`\d+(\.\d+)+[0-9A-Za-z.+-]*`)
