package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// requestUntil returns request's result, or an error as soon as ctx ends: opening or reading a FIFO blocks until somebody
// writes. Such a read ends with the process.
func requestUntil(ctx context.Context, in io.Reader, c *cli.Context) (r run.Request, err error) {
	done := make(chan struct{})
	var read run.Request
	var failed error
	go func() {
		read, failed = newRequest(in, c)
		close(done)
	}()
	select {
	case <-done:
		return read, failed
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
}

// newRequest returns the request in the command line, with absolute paths.
func newRequest(in io.Reader, c *cli.Context) (run.Request, error) {
	what, err := sourceOf(c)
	if err != nil {
		return run.Request{}, err
	}
	r := run.Request{
		Namespace: c.String("namespace"),
		Language:  c.String("language"),
		Args:      what.args,
		Command:   what.command,
		Env:       c.StringSlice("env"),
		Reach:     run.Reach{Secrets: c.StringSlice("secret"), Typed: true},
		Bounds:    pipeline.Bounds{Output: c.Int64("output")},
		Where:     run.Where{Backend: c.String("backend"), Profile: c.String("profile"), Require: c.StringSlice("require")},
	}
	switch {
	case c.Bool("no-network") && c.IsSet("allow"):
		return r, exit.Usage("leave one of them out", "--no-network and --allow contradict each other")
	case c.Bool("no-network"):
		r.Allow = []string{}
	case c.IsSet("allow"):
		r.Allow = c.StringSlice("allow")
	}
	if c.IsSet("gpus") {
		r.GPUs = config.SplitGPUs(c.String("gpus"))
		if err := container.CheckGPUs(r.GPUs); err != nil {
			why, _ := exit.Reason(err)
			return r, exit.Usage("--gpus all", "--gpus: %s", why)
		}
	}
	for _, step := range []func() error{
		func() error { return ReadLimits(c, &r.Limits) },
		func() error { return ReadScript(in, &r, what) },
		func() error { return hostInputs(c, &r, what.File) },
		func() (err error) { r.Artifacts, err = ArtifactsDir(c); return err },
	} {
		if err := step(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Source is the file, the code or the command to run.
type Source struct {
	File    string // "-" for standard input
	code    string // typed code; "" for none
	command []string
	args    []string // arguments of a file or of code
}

func sourceOf(c *cli.Context) (w Source, err error) {
	words := c.Args().Slice()
	after := len(words) > 0 && words[0] == "--" // see package cmdline
	switch {
	case c.IsSet("c") && len(words) > 0 && !after:
		return w, exit.Usage("put the code's own arguments after --", "give one of %s and -c CODE", terminal.Visible(words[0]))
	case c.IsSet("c"):
		w.code, w.args = c.String("c"), words[min(1, len(words)):]
	case len(words) == 0, after && len(words) == 1:
		return w, exit.Usage("sandboxmcp run script.py, or sandboxmcp run -- pytest -q",
			"run needs a FILE, - for standard input, -c CODE, or -- and a COMMAND")
	case after:
		w.command = words[1:]
	default:
		w.File, w.args = words[0], words[1:]
	}
	return w, nil
}

// ReadLimits reads the limits in the command line into l.
func ReadLimits(c *cli.Context, l *backends.Limits) error {
	// Zero would mean the default, which nobody who types it expects.
	for _, name := range []string{"timeout", "ram", "cpu", "processes", "disk", "output"} {
		if c.IsSet(name) && !(command.IsPositive(c, name)) {
			return exit.Usage("leave it out for the default", "--%s must be more than 0", name)
		}
	}
	*l = backends.Limits{
		RAM:       megabytes(c.Int64("ram")),
		Wall:      command.Seconds(c.Float64("timeout")),
		CPU:       c.Float64("cpu"),
		Processes: c.Int("processes"),
		Disk:      megabytes(c.Int64("disk")),
	}
	return nil
}

// megabytes converts to bytes without overflow: the caps are far below.
func megabytes(n int64) int64 { return min(n, 1<<40) << 20 }

// ReadScript reads the code. If it comes from standard input, the program has no input; otherwise the request keeps it.
func ReadScript(in io.Reader, r *run.Request, w Source) error {
	file := w.File
	switch {
	case w.command != nil:
		r.Stdin, r.Beside = in, findBesideCommand(w.command[0])
		return nil
	case file == "": // code may be empty: it is refused like an empty file
		r.Code, r.Language, r.Stdin = []byte(w.code), cmp.Or(r.Language, validate.Python), in
		return nil
	case file == "-":
		code, err := ReadCode(in, "standard input")
		r.Code = code
		return err
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		hint := "check the spelling; the path starts at the current directory"
		if cmdline.IsProgram(file) {
			hint = "to run a program: sandboxmcp run -- " + file
		}
		return exit.Usage(hint, "there is no file %s", terminal.Visible(file))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return exit.Usage("sandboxmcp run "+filepath.Join(file, "main.py")+" --workspace "+file, "%s is a directory: name the script in it",
			terminal.Visible(file))
	}
	r.Code, err = ReadCode(f, file)
	r.Name, r.Stdin, r.Beside = filepath.Base(file), in, findBesideScript(file)
	return err
}

// ReadCode reads code, at most one byte more than the limit of a run; name is for errors.
func ReadCode(from io.Reader, name string) ([]byte, error) {
	code, err := io.ReadAll(io.LimitReader(from, validate.MaxSource+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return code, nil
}

// findBesideCommand returns a function that finds a command's program on the host, and other files in the current
// directory.
func findBesideCommand(program string) func(name string) (string, bool) {
	here := findBesideScript("-")
	return func(name string) (string, bool) {
		if name != program {
			return here(name)
		}
		if strings.Contains(name, "/") {
			return name, fileExists(name)
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
		return name, fileExists(name)
	}
}

// findBesideScript returns a function that finds a file or a module next to the script, as its interpreter would.
func findBesideScript(file string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		dir := filepath.Dir(file)
		if path := filepath.Join(dir, name); filepath.IsLocal(name) && fileExists(path) {
			return path, true
		}
		module, _, _ := strings.Cut(filepath.Base(name), ".")
		for _, extension := range []string{".py", ".js", ".mjs", ".cjs", ".ts", ".json", ""} {
			if path := filepath.Join(dir, module+extension); fileExists(path) {
				return path, true
			}
		}
		return "", false
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hostInputs adds the mounts, inputs and workspace in the command line to r.
func hostInputs(c *cli.Context, r *run.Request, file string) error {
	for _, text := range c.StringSlice("mount") {
		m, err := parseMount(text)
		if err != nil {
			return err
		}
		r.Mounts = append(r.Mounts, m)
	}
	for _, path := range c.StringSlice("input") {
		in, err := parseInput(path)
		if err != nil {
			return err
		}
		r.Inputs = append(r.Inputs, in)
	}
	text, proposes := c.String("workspace"), ChangesOf(c) != noChanges
	if text == "" && proposes {
		return exit.Usage("--workspace . --changes", "--changes is about the directory of --workspace")
	}
	if text == "" {
		return nil
	}
	dir, write := splitAccess(text)
	if write && proposes {
		return exit.Usage("leave one of them out", "--changes and --workspace %s contradict each other", text)
	}
	abs, err := existingPath("--workspace", dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return exit.Usage("--workspace "+filepath.Dir(dir), "--workspace %s is not a directory", dir)
	}
	r.Workspace = backends.Mount{Host: abs, Write: write, Propose: proposes}
	if repository, linked := workspace.Repository(abs); linked {
		mounts := append(r.Mounts[:len(r.Mounts):len(r.Mounts)], repository)
		if backends.CheckPlaces(backends.Spec{Workspace: r.Workspace, Mounts: mounts}) == nil { // else git fails, and nothing else
			r.Mounts = mounts
		}
	}
	r.Within = relativeTo(abs, file)
	return nil
}

// relativeTo returns the path of file relative to dir, or "" if it is not inside.
func relativeTo(dir, file string) string {
	abs, err := filepath.Abs(file)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil || file == "-" || file == "" {
		return ""
	}
	if !paths.Within(abs, dir) {
		return ""
	}
	rel, _ := filepath.Rel(dir, abs)
	return filepath.ToSlash(rel)
}

// parseMount parses HOST:PATH[:ro|rw]. The host path may contain colons, PATH may not.
func parseMount(text string) (backends.Mount, error) {
	rest, write := splitAccess(text)
	i := strings.LastIndex(rest, ":")
	if i <= 0 || !strings.HasPrefix(rest[i+1:], "/") {
		return backends.Mount{}, exit.Usage("--mount ./data:/data, or --mount ./data:/data:rw to let it write there",
			"--mount %s is not of the form HOST:PATH[:ro|rw] with an absolute PATH", text)
	}
	host, err := existingPath("--mount", rest[:i])
	return backends.Mount{Host: host, Inside: rest[i+1:], Write: write}, err
}

// splitAccess splits :ro or :rw off the end of text.
func splitAccess(text string) (path string, write bool) {
	if path, ok := strings.CutSuffix(text, ":rw"); ok {
		return path, true
	}
	return strings.TrimSuffix(text, ":ro"), false
}

// parseInput follows cp -r: a directory keeps its name, "directory/." stands for its content.
func parseInput(path string) (run.Input, error) {
	abs, err := existingPath("--input", path)
	in := run.Input{Host: abs, Name: filepath.Base(path)}
	if last := path[strings.LastIndex(path, "/")+1:]; last == "." || last == ".." {
		in.Name = "."
	}
	return in, err
}

// existingPath returns the absolute path, with links resolved, of an existing file. It refuses a link that a program may
// have left: the next run would be shown the link's target.
func existingPath(flag, path string) (string, error) {
	abs, err := hostfs.Resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", exit.Usage("check the spelling; the path starts at the current directory", "%s %s: there is no such file or directory", flag,
			terminal.Visible(path))
	}
	if err != nil {
		return "", command.PathError("", flag, err)
	}
	return abs, nil
}

// ArtifactsDir returns the absolute path of the directory of --artifacts, or "". The run creates it.
func ArtifactsDir(c *cli.Context) (string, error) {
	dir := c.String("artifacts")
	if dir == "" {
		return "", nil
	}
	return hostfs.Abs(dir)
}
