package container

import (
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// mounts checks the request's mounts and returns what the engine is to show, with all links on the host followed.
func (b *Backend) mounts(s *standing, spec backends.Spec) ([]Bind, error) {
	if err := backends.CheckPlaces(spec, Home); err != nil {
		return nil, err
	}
	if !s.Local && (len(spec.Mounts) > 0 || spec.Workspace.Host != "") {
		return nil, &backends.Refusal{Reason: fmt.Sprintf("%s runs elsewhere (%s), and can't show folders of this machine", b.Name(), s.Address),
			Remedy: "send files along instead of mounting them, or use an engine of this machine"}
	}
	spec, err := backends.Shown(spec, s.Address)
	if err != nil {
		return nil, err
	}
	var binds []Bind
	for _, m := range spec.Mounts {
		binds = append(binds, Bind(m))
	}
	if w := spec.Workspace; w.Host != "" {
		binds = append(binds, Bind{Host: w.Host, Inside: Workspace, Write: w.Write})
	}
	return binds, nil
}
