package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// closeSandbox closes the sandbox, unless it is a session's, and the resources beside it. It may be called more than
// once.
func (e *execution) closeSandbox() error {
	if e.tree != nil {
		e.tree.Close()
	}
	if e.view.Release != nil {
		defer e.view.Release()
	}
	if e.guard != nil || e.sandbox == nil {
		return nil
	}
	return e.sandbox.Close()
}

// Start builds the sandbox while the run's start is written to the audit log: both take about as long, and the
// program does not run yet. It returns when both are done. The row comes first if the program can see a directory
// above our own files, because files that the row creates must exist to be hidden. The row also comes first for a
// session's existing sandbox without inputs, where a goroutine costs more than the row.
func (e *execution) Start(ctx context.Context) error {
	if code := e.request.Code; e.Pipeline.Config.Capture.Code {
		e.AddRow(pipeline.ExecutionCaptured, pipeline.Facts{"code": pipeline.CapturedText(code), "code_bytes": len(code)})
	}
	if e.guard != nil {
		e.before = e.guard.Sandbox().Sample(false)
	}
	e.Releases = append(e.Releases, func() { e.closeSandbox() })
	if containment.ExposesOwnFiles(e.Pipeline, e.request.HostDirs()) || e.guard != nil && len(e.request.Inputs) == 0 {
		if err := e.RecordStart(ctx); err != nil {
			return err
		}
		return e.build(ctx)
	}
	built := make(chan error, 1)
	go func() { built <- e.build(ctx) }() // not the row: it needs more stack than a new goroutine has
	recorded := e.RecordStart(ctx)
	if err := <-built; recorded == nil {
		return err
	}
	return recorded
}

// build starts the sandbox, or uses the session's, and writes the files of the run into it.
func (e *execution) build(ctx context.Context) (err error) {
	defer e.TimeStage(&e.Outcome.Timings.Start)()
	if e.guard != nil {
		e.sandbox = e.guard.Sandbox()
		e.inputs, err = e.writeInputs(ctx)
		return err
	}
	q := e.request
	if q.Show && e.program.Language == validate.Python && q.Workspace.Host == "" && kernel.MayDisplay(e.program.Source) {
		e.displayFile = "." + q.ID
	}
	if e.view, err = containment.PackagesOf(ctx, e.Pipeline, e.Containment, q.Namespace, e.shows, ""); err != nil {
		return err
	}
	spec := backends.Spec{
		ID:        q.ID,
		Language:  e.shows,
		Profile:   e.Base,
		Require:   e.Requires,
		Limits:    e.limits.Limits,
		Mounts:    slices.Concat(q.Mounts, q.homeMount(), e.view.Mounts),
		Workspace: q.Workspace,
		GPUs:      q.GPUs,
	}
	reach := e.outbound.PrepareSpec(&spec)
	file, remove, err := e.bring(&spec, e.Pipeline.Config.Temp)
	if err != nil {
		return err
	}
	defer remove()
	env := e.env(file, e.Leases.Env(q.Secrets), slices.Concat(e.Pipeline.Config.Git.Env(), e.view.Env, reach))
	e.command = backends.Command{Args: e.argv(file), Env: slices.Concat(env, e.outbound.GitEnv(q.Env))}
	if q.Terminal == nil { // a prestarted interpreter has pipes instead of the terminal
		spec.Program = &e.command // the only program of this sandbox
	}
	if q.Workspace.Propose {
		e.since = changes.Began(e.Began) // before a backend copies it
	}
	if e.sandbox, err = e.Backend.Start(ctx, spec); err != nil {
		return err
	}
	if e.sandbox, err = e.outbound.Attach(e.sandbox, e.scope()); err != nil {
		return err
	}
	if e.inputs, err = e.writeInputs(ctx); err != nil {
		return err
	}
	if q.Workspace.Write {
		e.tree, err = snapshotTree(ctx, q.Workspace.Host)
	}
	return err
}

// Outside is the sandbox directory of a program that is not part of the host workspace.
const Outside = "/script/"

// bring returns the program's path in the sandbox. writeInputs writes the file into an empty workspace later. A host
// workspace has it already, or must not keep it: then it is mounted from a temporary file, which is removed once the
// sandbox has started.
func (c plan) bring(spec *backends.Spec, temp string) (file string, remove func(), err error) {
	q, name, source := c.request, c.program.Name, c.program.Source
	transformed := !bytes.Equal(source, c.unfenced)
	switch {
	case q.Command != nil:
		return "", func() {}, nil
	case q.Workspace.Host == "":
		return name, func() {}, nil
	case q.Within != "" && !transformed:
		return q.Within, func() {}, nil
	}
	dir, err := containment.TempDir(temp)
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	host := filepath.Join(dir, name)
	err = errors.Join(os.WriteFile(host, source, 0o644), os.Chmod(host, 0o644)) // independent of the umask
	if err != nil {
		remove()
		return "", nil, err
	}
	inside := Outside + name
	spec.Mounts = append(slices.Clone(spec.Mounts), backends.Mount{Host: host, Inside: inside})
	return inside, remove, nil
}

// argv returns the command line of the program: its interpreter, its file, and its arguments.
func (c plan) argv(file string) []string {
	if c.request.Command != nil {
		return c.request.Command
	}
	if strings.HasPrefix(file, "-") {
		file = "./" + file // a leading "-" would make it an option
	}
	interpreter := []string{c.program.Language}
	switch {
	case c.program.Interpreter != nil:
		interpreter = c.program.Interpreter
	case c.program.Language == "shell":
		interpreter = []string{"bash"}
	case c.program.Language == "node" && !bytes.Equal(c.program.Source, c.unfenced):
		interpreter = []string{"node", "--enable-source-maps"} // errors name the original lines
	}
	return slices.Concat(interpreter, []string{file}, c.request.Args)
}

// env returns the program's environment. Later entries override earlier ones.
func (c plan) env(file string, secrets, packages []string) []string {
	var env []string
	if strings.HasPrefix(file, Outside) {
		env = []string{"PYTHONPATH=/workspace"} // Python imports from the file's directory, which is not /workspace
	}
	if c.request.Show && c.program.Language == validate.R {
		env = append(env, "R_DEFAULT_DEVICE=png") // the default is PDF, which models can't see
	}
	if c.request.Home != "" {
		env = append(env, "HOME="+Home)
	}
	return slices.Concat(joinPaths(env, packages), c.request.Env, secrets)
}

// joinPaths adds variables to env. If both have a variable, which only search paths may, it joins the values.
func joinPaths(env, more []string) []string {
	for _, kv := range more {
		name, value, _ := strings.Cut(kv, "=")
		i := slices.IndexFunc(env, func(has string) bool { return strings.HasPrefix(has, name+"=") })
		if i < 0 {
			env = append(env, kv)
			continue
		}
		env[i] += ":" + value
	}
	return env
}
