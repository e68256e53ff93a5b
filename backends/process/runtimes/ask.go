package runtimes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// answerTime bounds the execution of an interpreter that reports its path or version.
const answerTime = 5 * time.Second

// ask executes a wrapper script of unknown make, once, and returns the program behind it.
func (f *finder) ask(ctx context.Context, path string) (target, how string, err error) {
	var args []string
	switch f.name {
	case "python":
		args = []string{"-I", "-S", "-c", "import sys; print(sys.executable)"}
	case "node":
		args = []string{"-p", "process.execPath"}
	default:
		return path, "", nil
	}
	target, err = f.remember(ctx, path, args)
	if err != nil {
		return "", "", err
	}
	if !filepath.IsAbs(target) || !executable(target) {
		return "", "", fmt.Errorf("%s is a script that says its program is %q, which is none", path, target)
	}
	if start, err := readStart(target); err != nil || strings.HasPrefix(string(start), "#!") {
		return "", "", fmt.Errorf("%s is a script, and no program could be found behind it", path)
	}
	return target, "behind the script " + path, nil
}

// Version asks the interpreter for its version, if it is not known yet: "3.11.7". A shell without --version has none.
func Version(ctx context.Context, r Runtime) (string, error) {
	if r.Version != "" || r.Path == "" {
		return r.Version, nil
	}
	out, err := answer(ctx, r.Path, r.Argv0, []string{"PATH=" + SystemPath}, "--version")
	if err != nil && r.Name == "shell" {
		return "", nil // dash has no --version
	}
	return versionIn().FindString(out), err
}

// versionIn matches a version in an interpreter's own words: two numbers at least.
var versionIn = lazy.Regexp(`\d+(\.\d+)+[0-9A-Za-z.+-]*`)

// remember is answer, cached on disk for as long as the program's file stays the same.
func (f *finder) remember(ctx context.Context, path string, args []string) (string, error) {
	file := f.memory(path, args)
	if file != "" {
		if known, ok := readSmall(file); ok && executable(known) {
			return known, nil
		}
	}
	out, err := answer(ctx, path, path, []string{"PATH=" + f.env.Path, "HOME=" + f.env.Home}, args...)
	if err == nil && file != "" {
		keep(file, out)
	}
	return out, err
}

// memory returns the name of the cache file: by path, size, times and inode, as ccache does, so that an upgrade asks again.
// It returns "" where nothing can be cached.
func (f *finder) memory(path string, args []string) string {
	fi, err := os.Stat(path)
	if err != nil || f.env.Cache == "" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d %d %d", path, args, fi.Size(), fi.ModTime().UnixNano(), inode(fi))
	return filepath.Join(f.env.Cache, hex.EncodeToString(h.Sum(nil)[:16]))
}

// keep writes an answer as a whole file or not at all. A failure only costs the next run time.
func keep(file, answer string) {
	dir := filepath.Dir(file)
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	// What is remembered will be executed.
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm()&0o022 != 0 {
		return
	}
	_ = statefile.Replace(file, "answer", []byte(answer), 0o600)
}

// answer runs a program without variables that influence which code it loads.
func answer(ctx context.Context, path, argv0 string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append([]string{argv0}, args...)
	cmd.Env = append(env, "LANG=C.UTF-8")
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("%s %s: %v: %s", path, args[0], err, text)
	}
	return strings.TrimSpace(out.String()), nil
}
