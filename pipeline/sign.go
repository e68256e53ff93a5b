package pipeline

import (
	"context"
	"fmt"
	"io"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// sign lists what the program left behind. Artifacts that can't be read or saved do not undo the
// run: the result says so.
func (r *run) sign(ctx context.Context, e ended) ended {
	defer r.time(&r.res.Timings.Sign)()
	ctx, cancel := outlast(ctx)
	defer cancel()
	src := r.left(e)
	if e.guard != nil {
		src = e.fresh()
	}
	m, err := signer.Collect(ctx, src, signer.Options{
		Dir:       r.artifactDir(e),
		Fresh:     e.Artifacts == "",
		MaxCount:  r.p.cfg.Artifacts.MaxCount,
		MaxBytes:  r.p.cfg.Artifacts.MaxBytes,
		Secret:    r.scan(e),
		Unchanged: e.inputs,
		Redact:    r.clean,
	})
	r.res.addArtifacts(m)
	if err != nil {
		r.res.ArtifactsFailed = err.Error()
	}
	if e.tree != nil {
		for _, name := range e.tree.sprung() {
			r.warn(fmt.Sprintf("the program changed %s, which tools on the host will execute or obey", name))
		}
	}
	return e
}

// scan returns what looks for secrets in artifacts, or nil if nothing needs to.
func (r *run) scan(e ended) func(io.Reader) (bool, error) {
	var known func(io.Reader) (bool, error)
	if len(e.leases) > 0 && !r.p.cfg.Artifacts.ShowSecrets {
		known = e.leases.Find
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
	r.res.Value = kernel.ReadDisplays(f, 2*maxDisplays, r.display())
	return nil
}

// left lists the files that may be artifacts: all of a workspace of our own, what changed in a
// host's, nothing of one that was read-only.
func (r *run) left(e ended) signer.Source {
	switch {
	case e.tree != nil:
		return e.tree.changed
	case e.Workspace.Host != "":
		return func(context.Context, func(signer.File) error) (int, error) { return 0, nil }
	}
	return func(ctx context.Context, f func(signer.File) error) (int, error) {
		return e.sandbox.Files().Each(ctx, func(file backends.File) error {
			switch {
			case e.displayFile == "":
			case file.Name == e.displayFile:
				return r.takeDisplays(file)
			case file.Name == e.code.Name && file.Size == int64(len(kernel.Script(e.displayFile))):
				return nil // it ended before its driver had moved the program there
			}
			return f(signer.File{Name: file.Name, Size: file.Size, Mode: file.Mode, Open: file.Open})
		})
	}
}
