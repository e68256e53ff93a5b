package container

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/snapshot"
)

// proposal is a directory of the host that a sandbox has as a copy: engines differ in their support of overlays, and
// remote engines see no directory of this machine.
type proposal struct {
	names  snapshot.Names
	hidden map[string]bool
}

// copyWorkspace fills the workspace of a sandbox with a copy of the directory of the host.
func (h *initHandle) copyWorkspace(ctx context.Context, spec backends.Spec) (*proposal, error) {
	resolved, err := backends.ResolveMounts(spec)
	if err != nil {
		return nil, err
	}
	dir, err := hostfs.OpenDir(resolved.Workspace.Host)
	if err != nil {
		return nil, fmt.Errorf("open the workspace of the host: %w", err)
	}
	defer dir.Close()
	p := &proposal{hidden: backends.LocateHidden(h.backend.config.Hidden).HiddenIn(resolved.Workspace.Host)}
	source := snapshot.Source{Dir: dir, Hidden: p.hidden, Disk: spec.Limits.WithDefaults().Disk}
	from, to := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		var err error
		p.names, err = source.Pack(ctx, to)
		to.CloseWithError(err)
		packed <- err
	}()
	err = h.conn.Unpack(ctx, from)
	from.Close()
	if failed := <-packed; err == nil || errors.Is(failed, snapshot.ErrFull) {
		err = failed
	}
	if errors.Is(err, snapshot.ErrFull) {
		return nil, backends.RefuseCopy(resolved, "a container has no overlay of it")
	} else if err != nil {
		return nil, fmt.Errorf("copy %s: %w", resolved.Workspace.Host, err)
	}
	return p, nil
}

// Files implements [backends.Sandbox].
func (s *sandbox) Files() backends.Files {
	if s.proposal == nil {
		return s.Sandbox.Files()
	}
	return proposedFiles{s.Sandbox.Files(), s.proposal}
}

// proposedFiles are the files of a copy.
type proposedFiles struct {
	backends.Files
	*proposal
}

// Changes implements [backends.Files]. The init lists all paths that exist; it knows nothing of the missing ones.
func (f proposedFiles) Changes(ctx context.Context, do func(backends.Change) error) error {
	present := map[string]bool{}
	err := f.Files.Changes(ctx, func(c backends.Change) error {
		if f.hidden[c.Name] {
			return nil
		}
		if f.names.Has(c.Name) { // else the init could fill this process's memory with names
			present[c.Name] = c.Mode.IsDir()
		}
		return do(c)
	})
	if err != nil {
		return err
	}
	for _, name := range f.names.Missing(present) {
		if err := do(backends.Change{Name: name, Removed: true}); err != nil {
			return err
		}
	}
	return nil
}
