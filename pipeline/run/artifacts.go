package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// FindArtifacts opens the existing part of the directory that a caller wants artifacts in, so that no program can
// redirect it later. The missing part is created when there is an artifact to save, so a refused run creates nothing.
func FindArtifacts(r *pipeline.Run, name string) (*hostfs.Dir, error) {
	if name == "" {
		return nil, nil
	}
	d, err := hostfs.FindDir(name)
	if link, is := errors.AsType[*hostfs.LinkError](err); is {
		return nil, pipeline.Refuse(pipeline.StageValidate, "the directory for artifacts: "+err.Error(),
			"to use it, name its target: ", remedy.Artifacts.With(link.To))
	}
	if err != nil {
		return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the directory for artifacts: %v", err),
			"name a directory that can be written with ", remedy.Artifacts)
	}
	r.Releases = append(r.Releases, func() { d.Close() })
	return d, nil
}

// artifactDir returns a function that opens the directory for a run's artifacts: the one that its caller named, or
// one of the result store. nil saves none.
func (e *execution) artifactDir() func() (*os.Root, error) {
	switch {
	case e.saves != nil:
		return e.saves.Open
	case e.Pipeline.Config.Results == nil:
		return nil
	}
	return func() (root *os.Root, err error) {
		if root, err = e.Pipeline.Config.Results.OpenArtifacts(e.Outcome.ID); err == nil {
			e.Releases = append(e.Releases, func() { root.Close() })
		}
		return root, err
	}
}

// proposedFiles calls f for each file that differs from the host's, by size, mode or time: a copy lists all files.
func (e *execution) proposedFiles(ctx context.Context, f func(signer.File) error) (int, error) {
	host, err := hostfs.OpenDir(e.request.Workspace.Host)
	if err != nil {
		return 0, err
	}
	defer host.Close()
	return 0, e.sandbox.Files().Changes(ctx, func(c backends.Change) error {
		if c.Open == nil {
			return nil
		}
		if old, err := host.Lstat(c.Name); err == nil && old.Mode() == c.Mode && old.Size() == c.Size && old.ModTime().Equal(c.ModTime) {
			return nil
		}
		return f(signer.File{Name: c.Name, Size: c.Size, Mode: uint32(c.Mode.Perm()), Open: c.Open})
	})
}
