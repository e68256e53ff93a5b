package backends

import (
	"errors"
	"slices"
)

// NotTried returns the layers of a probe whose sandbox could not be started because of err: the layer of a *Refusal with
// its reason, and all others as not tried.
func NotTried(err error) []LayerProbe {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		refusal = &Refusal{Reason: err.Error()}
	}
	var list []LayerProbe
	for _, name := range append(slices.Clone(ContainmentLayers), LayerCgroup, LayerRlimit) {
		l := LayerProbe{Layer: Layer{Name: name, Detail: "not tried"}}
		if name == refusal.Layer {
			l.Detail, l.Remedy = refusal.Reason, refusal.Remedy
		}
		list = append(list, l)
	}
	return list
}

// Probe describes what a host offers, for sandboxmcp doctor.
type Probe struct {
	Backend  string
	Usable   bool // a sandbox of the requested profile can run
	Why      string
	Layers   []LayerProbe
	Runtimes []Runtime
}

// LayerProbe reports whether a layer can be had on this host.
type LayerProbe struct {
	Layer
	Remedy string // what to type where it can't be had
}

// Runtime is one interpreter found on the host or in an image.
type Runtime struct {
	Name    string // "python", "node", "shell"
	Path    string // the real program, links and shims resolved; "" when missing
	Version string
	Why     string // where it was found, or why it is missing and what to install
}
