package pipeline

import (
	"context"
	"fmt"
	"io"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// sign is the stage of artifacts: it lists and hashes what the program left, and copies it to where it is to be saved. Artifacts that can't be read
// or saved do not undo the run: the result says so. The receipt, which has the hashes, is signed with the row of the run's end, see signOutcome;
// the files get their names when that is in the log.
func (e *execution) sign(ctx context.Context) {
	defer e.time(&e.res.Timings.Sign)()
	ctx, cancel := outlast(ctx)
	defer cancel()
	src := e.left()
	if e.guard != nil {
		src = e.fresh()
	}
	if e.saves != nil {
		e.p.journal.beginArtifacts(e.res.ID, e.res.Namespace, e.saves.Path)
	}
	m, staged, err := signer.Stage(ctx, src, signer.Options{
		Dir:       e.artifactDir(),
		Fresh:     e.saves == nil,
		ID:        e.res.ID,
		MaxCount:  e.p.cfg.Artifacts.MaxCount,
		MaxBytes:  e.p.cfg.Artifacts.MaxBytes,
		Secret:    e.scan(),
		Unchanged: e.inputs,
		Redact:    e.clean,
	})
	e.staged = staged
	e.res.Manifest = m
	if err != nil {
		e.res.ArtifactsFailed = err.Error()
	}
	if e.tree != nil {
		for _, name := range e.tree.sprung() {
			e.warn(fmt.Sprintf("the program changed %s, which tools on the host will execute or obey", name))
		}
	}
}

// scan returns what looks for secrets in artifacts, or nil if nothing needs to.
func (r *run) scan() func(io.Reader) (bool, error) {
	var known func(io.Reader) (bool, error)
	if held := r.held(); len(held) > 0 && !r.p.cfg.Artifacts.ShowSecrets {
		known = held.Find
	}
	if r.unknown.policy == UnknownOff {
		return known
	}
	return func(in io.Reader) (bool, error) { return r.unknown.scan(in, known) }
}

// takeDisplays adds the displays of the program to the result. A file that can't be read has none.
func (r *run) takeDisplays(file backends.File) error {
	f, err := file.Open()
	if err != nil {
		return nil
	}
	defer f.Close()
	r.res.Value = kernel.ReadDisplays(f, 2*maxDisplays, r.display(func(kernel.Bundle) {}))
	return nil
}

// left lists the files that may be artifacts: all of a workspace of our own, what changed in a
// host's, nothing of one that was read-only.
func (e *execution) left() signer.Source {
	switch {
	case e.tree != nil:
		return e.tree.changed
	case e.request.Workspace.Host != "":
		return func(context.Context, func(signer.File) error) (int, error) { return 0, nil }
	}
	return func(ctx context.Context, f func(signer.File) error) (int, error) {
		return e.sandbox.Files().Each(ctx, func(file backends.File) error {
			switch {
			case e.displayFile == "":
			case file.Name == e.displayFile:
				return e.takeDisplays(file)
			case file.Name == e.program.Name && file.Size == int64(len(kernel.Script(e.displayFile))):
				return nil // it ended before its driver had moved the program there
			}
			return f(signer.File{Name: file.Name, Size: file.Size, Mode: file.Mode, Open: file.Open})
		})
	}
}
