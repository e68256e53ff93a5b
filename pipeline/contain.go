package pipeline

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
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// started is a run whose sandbox stands, with all files in it, and whose start is in the log.
type started struct {
	routed
	sandbox     backends.Sandbox
	command     backends.Command
	inputs      map[string]string // SHA-256 by name, of the files that we put into the workspace
	displayFile string            // the file in which the driver leaves displays; "" without one
	tree        *tree             // the host workspace before the program, if there is a writable one
	view        packages.View     // the namespace's packages, as they are shown
}

// Close ends the sandbox, if there is one and it is not a session's, and what stands beside it. It may
// be called more than once.
func (s started) Close() error {
	if s.tree != nil {
		s.tree.Close()
	}
	if s.view.Release != nil {
		defer s.view.Release()
	}
	if s.guard != nil || s.sandbox == nil {
		return nil
	}
	return s.sandbox.Close()
}

// backend builds the sandbox while the run's start is being written to the log: both take about as
// long, and nothing of the program runs yet. It returns when both are done. Where a program is shown a directory
// above our own files, the row comes first: those that writing it makes have to be there to be covered. So it does
// where a session has it all: to hand the row to another goroutine would take longer than to write it.
func (r *run) backend(ctx context.Context, q routed) (started, error) {
	r.captureCode(q.Code)
	if q.guard != nil {
		r.before = q.guard.Sandbox().Sample(false)
	}
	if r.p.shows(q.Request) || q.guard != nil && len(q.Inputs) == 0 {
		if err := r.recordStart(ctx); err != nil {
			return started{}, err
		}
		s, err := r.build(ctx, q)
		if err != nil {
			s.Close()
			return started{}, err
		}
		return s, nil
	}
	var s started
	var err error
	built := make(chan struct{})
	go func() { // and not the row, which takes more stack than a new goroutine has
		defer close(built)
		s, err = r.build(ctx, q)
	}()
	rowErr := r.recordStart(ctx)
	if <-built; rowErr != nil {
		s.Close()
		return started{}, rowErr
	}
	if err != nil {
		s.Close()
		return started{}, err
	}
	return s, nil
}

func (r *run) build(ctx context.Context, q routed) (s started, err error) {
	defer r.time(&r.res.Timings.Start)()
	s = started{routed: q}
	if q.guard != nil {
		return r.enterSession(ctx, s)
	}
	if q.Show && q.code.Language == validate.Python && q.Workspace.Host == "" && kernel.Shows(q.code.Source) {
		s.displayFile = "." + q.ID
	}
	if s.view, err = r.p.packagesOf(ctx, q.checked, ""); err != nil {
		return s, err
	}
	spec := backends.Spec{
		ID:        q.ID,
		Language:  q.shows,
		Profile:   q.base,
		Require:   q.requires,
		Limits:    q.limits.Limits,
		Mounts:    slices.Concat(q.Mounts, s.view.Mounts),
		Workspace: q.Workspace,
		GPUs:      q.GPUs,
	}
	q.outbound.Shape(&spec)
	file, remove, err := q.bring(&spec, r.p.cfg.Temp)
	if err != nil {
		return s, err
	}
	defer remove()
	env := q.env(file, slices.Concat(s.view.Env, q.outbound.Env()))
	s.command = backends.Command{Args: q.argv(file), Env: slices.Concat(env, q.outbound.Git(q.Env))}
	if q.Terminal == nil { // or an interpreter that stood ready would have pipes
		spec.Program = &s.command // nothing else will run in it
	}
	if s.sandbox, err = q.backend.Start(ctx, spec); err != nil {
		return s, err
	}
	if s.sandbox, err = q.outbound.Open(s.sandbox); err != nil {
		return s, err
	}
	if s.inputs, err = r.place(ctx, s); err != nil {
		return s, err
	}
	if q.Workspace.Write {
		s.tree, err = snapshotTree(ctx, q.Workspace.Host)
	}
	return s, err
}

// outside is where in the sandbox the program lies if it is not part of a host workspace.
const outside = "/script/"

// bring says how the program's file is called inside. In an empty workspace it will be put there.
// In a host's, the file is there already; what is not shall not be left there either, so it comes
// by a mount, whose source is on the host only until the sandbox stands.
func (q routed) bring(spec *backends.Spec, temp string) (file string, remove func(), err error) {
	transformed := !bytes.Equal(q.code.Source, q.unfenced)
	switch {
	case q.Command != nil:
		return "", func() {}, nil
	case q.Workspace.Host == "":
		return q.code.Name, func() {}, nil
	case q.Within != "" && !transformed:
		return q.Within, func() {}, nil
	}
	dir, err := tempDir(temp)
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	host := filepath.Join(dir, q.code.Name)
	err = errors.Join(os.WriteFile(host, q.code.Source, 0o644), os.Chmod(host, 0o644)) // whatever the umask
	if err != nil {
		remove()
		return "", nil, err
	}
	inside := outside + q.code.Name
	spec.Mounts = append(slices.Clone(spec.Mounts), backends.Mount{Host: host, Inside: inside})
	return inside, remove, nil
}

// argv is the command line of the program: its interpreter, its file, and its arguments.
func (q routed) argv(file string) []string {
	if q.Command != nil {
		return q.Command
	}
	if strings.HasPrefix(file, "-") {
		file = "./" + file // or else the interpreter takes it for an option
	}
	interpreter := []string{q.code.Language}
	switch {
	case q.code.Interpreter != nil:
		interpreter = q.code.Interpreter
	case q.code.Language == "shell":
		interpreter = []string{"bash"}
	case q.code.Language == "node" && !bytes.Equal(q.code.Source, q.unfenced):
		interpreter = []string{"node", "--enable-source-maps"} // errors name the lines as written
	}
	return slices.Concat(interpreter, []string{file}, q.Args)
}

// env is what the program finds in its environment, the later the stronger.
func (q routed) env(file string, packages []string) []string {
	var env []string
	if strings.HasPrefix(file, outside) {
		env = []string{"PYTHONPATH=/workspace"} // python looks beside the file, which is elsewhere
	}
	if q.Show && q.code.Language == validate.R {
		env = append(env, "R_DEFAULT_DEVICE=png") // or plots are a PDF, which models can't see
	}
	return slices.Concat(joinPaths(env, packages), q.Env, q.leases.Env(q.Secrets))
}

// joinPaths adds variables to env. Where both have one, as only search paths may, the values follow
// one another.
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
