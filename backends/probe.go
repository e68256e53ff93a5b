package backends

import (
	"errors"
	"slices"
)

// NotTried says of each layer whether it can be had, after a sandbox could not be started for err: of the one
// that a *Refusal is about, that it can't, and why.
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
