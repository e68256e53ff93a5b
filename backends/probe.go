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
