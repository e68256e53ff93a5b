// Package containment decides how a program is contained, before it starts: the backend, its profile and layers
// (containment), the operator's languages (runtimes), the visible files of the host (data, overlap, packages), the
// reachable hosts (egress), and the environment (env). Effects with a sandbox call it in their plan. It starts
// nothing.
package containment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Containment is the backend of a sandbox, and the layers without which the sandbox is refused.
type Containment struct {
	Backend  backends.Backend
	Profile  string   // name in the policy
	Base     string   // the backend's own profile below it
	Requires []string // of the profile and the request
}

// Describe adds the containment and the limits of a program to the facts of a run.
func (c Containment) Describe(r *pipeline.Run, program validate.Checked, limits pipeline.Bounds) {
	r.Facts["language"], r.Facts["name"] = program.Language, program.Name
	r.Facts["backend"], r.Facts["profile"], r.Facts["require"] = c.Backend.Name(), c.Profile, c.Requires
	r.Facts["limits"] = struct {
		CPU       float64 `json:"cpu_cores"`
		Disk      int64   `json:"disk_bytes"`
		Output    int64   `json:"output_bytes"`
		Processes int     `json:"processes"`
		RAM       int64   `json:"ram_bytes"`
		Wall      float64 `json:"wall_seconds"`
	}{limits.CPU, limits.Disk, limits.Output, limits.Processes, limits.RAM, limits.Wall.Seconds()}
}

// Choose returns the backend, the profile ("" for the defaults), and the required layers: those of the profile, and
// more.
func Choose(p *pipeline.Pipeline, backend, profile string, more []string) (c Containment, err error) {
	if c.Backend, err = findBackend(p, backend); err != nil {
		return c, err
	}
	c.Profile = cmp.Or(profile, p.Config.Profile)
	known, ok := p.Config.Profiles[c.Profile]
	if !ok {
		return c, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown profile %q", c.Profile),
			"choose one of: "+strings.Join(slices.Sorted(maps.Keys(p.Config.Profiles)), ", ")+", or name it under ", remedy.Setting.With("profiles"))
	}
	if c.Base = known.Base; known.Require == nil {
		known.Require = c.Backend.Promises(c.Base)
	}
	layers := slices.Concat(known.Require, more)
	for _, l := range layers {
		if !slices.Contains(AllLayers, l) {
			return c, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown layer %q", l), "choose from: "+strings.Join(AllLayers, ", "))
		}
	}
	for i, l := range AllLayers {
		if slices.Contains(layers, l) {
			c.Requires = append(slices.Grow(c.Requires, len(AllLayers)-i), l)
		}
	}
	return c, nil
}

// findBackend returns the backend of this name, or the default one.
func findBackend(p *pipeline.Pipeline, name string) (backends.Backend, error) {
	var names []string
	for _, b := range p.Config.Backends {
		if name == "" || b.Name() == name {
			return b, nil
		}
		names = append(names, b.Name())
	}
	if names == nil {
		return nil, pipeline.Refuse(pipeline.StageValidate, "no backend is configured", "")
	}
	return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown backend %q", name),
		"choose one of: "+strings.Join(names, ", "))
}

// AllLayers are the layers that can be required.
var AllLayers = slices.Concat(backends.ContainmentLayers, []string{backends.LayerCgroup, backends.LayerRlimit})

// Probe returns the capabilities of a backend for the default profile; "" is the default backend.
func Probe(ctx context.Context, p *pipeline.Pipeline, backend string) (backends.Probe, error) {
	c, err := Choose(p, backend, "", nil)
	if err != nil {
		return backends.Probe{}, err
	}
	probe, err := c.Backend.Probe(ctx, backends.Spec{Profile: c.Base, Require: c.Requires})
	probe.Runtimes = append(probe.Runtimes, ProbeRuntimes(p.Config.Runtimes, c.Backend.Name())...)
	return probe, err
}

// CheckLayers returns an error if a required layer is not among layers, those in force. Backends guarantee that; this
// is a second check.
func (c Containment) CheckLayers(layers []string) error {
	gone := slices.DeleteFunc(slices.Clone(c.Requires), func(l string) bool { return slices.Contains(layers, l) })
	if len(gone) == 0 {
		return nil
	}
	return &pipeline.Error{Stage: pipeline.StageBackend, Layer: gone[0], Reason: fmt.Sprintf(
		"backend %q ran the program without %s, which was required: this is a bug of sandboxmcp, and the result is withheld",
		c.Backend.Name(), strings.Join(gone, ", "))}
}
