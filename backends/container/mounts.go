package container

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// maxBinds bounds the binds of a container, including those of mounts below them.
const maxBinds = 100

// mounts checks the requested mounts and returns the engine's binds, with all links on the host resolved, and the
// directories in them to cover. A hidden file is covered by the engine's /dev/null.
func (b *Backend) mounts(s *engineState, spec backends.Spec) (binds []Bind, covers []string, err error) {
	if err := backends.CheckPlaces(spec, Home); err != nil {
		return nil, nil, err
	}
	if len(spec.Mounts) > 0 || spec.Workspace.Host != "" && !spec.Workspace.Propose {
		if err := s.canMount(b.Name()); err != nil {
			return nil, nil, err
		}
	}
	resolved, err := backends.ResolveMounts(spec, s.Address)
	if err != nil {
		return nil, nil, err
	}
	hidden := backends.LocateHidden(b.config.Hidden)
	if err := hidden.Check(spec, resolved); err != nil {
		return nil, nil, err
	}
	all := slices.Clone(resolved.Mounts)
	if w := resolved.Workspace; w.Host != "" && !w.Propose {
		all = append(all, backends.Mount{Host: w.Host, Inside: Workspace, Write: w.Write})
	}
	for _, m := range all {
		binds = append(binds, Bind{m.Host, m.Inside, m.Write})
		if !m.Write {
			binds = append(binds, submountBinds(m)...)
		}
	}
	if len(binds) > maxBinds {
		return nil, nil, backends.Refuse(fmt.Sprintf("mount: %d file systems are mounted below the requested directories", len(binds)-len(all)),
			"mount a directory with fewer")
	}
	for _, m := range all {
		for _, c := range hidden.CoversIn(m) {
			if c.Dir {
				covers = append(covers, c.Inside)
			} else {
				binds = append(binds, Bind{Host: os.DevNull, Inside: c.Inside})
			}
		}
	}
	return binds, covers, nil
}

// submountBinds returns the mounts below a read-only mount as binds of their own: an engine makes only the one
// mount read-only.
func submountBinds(m backends.Mount) (binds []Bind) {
	for _, sub := range backends.Submounts(m.Host) {
		if rest, err := filepath.Rel(m.Host, sub.Path); err == nil && !sub.Closed {
			binds = append(binds, Bind{Host: sub.Path, Inside: path.Join(m.Inside, filepath.ToSlash(rest))})
		}
	}
	return binds
}

// canMount refuses to mount directories of this machine if the engine does not see them.
func (s *engineState) canMount(backend string) error {
	if s.Local {
		return nil
	}
	return backends.Refuse(fmt.Sprintf("%s runs elsewhere (%s), and can't mount directories of this machine", backend, s.Address),
		"send files with the request instead of mounting them, or use an engine of this machine")
}
