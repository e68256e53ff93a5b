package call

import (
	"context"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// allowedEnds are the ends that an init may report; only the server reports policy ends.
var allowedEnds = []string{
	backends.EndedOK, backends.EndedExit, backends.EndedSignal, backends.EndedTimeout,
	backends.EndedOOM, backends.EndedLimit, backends.EndedCancelled,
}

var limitNames = []string{"ram", "wall", "processes", "disk", "cpu", "sockets"}

// checkResult returns the fault of a result, "" if it is valid. A valid result may still be false: it comes from
// the program's container.
func checkResult(ctx context.Context, r backends.Result) string {
	known := func(name string) bool { return slices.Contains(limitNames, name) }
	switch {
	case !slices.Contains(allowedEnds, r.Ended):
		return "an unknown end"
	case r.Ended == backends.EndedCancelled && ctx.Err() == nil:
		return "an unrequested cancellation"
	case r.ExitCode < 0 || r.ExitCode > 255 || (r.ExitCode == 0) != (r.Ended == backends.EndedOK):
		return "an exit code that does not match the end"
	case r.Limit != "" && !known(r.Limit):
		return "an unknown limit"
	case len(r.Hit) > 2*len(limitNames) || slices.ContainsFunc(r.Hit, func(h string) bool { return !known(h) }):
		return "unknown limits"
	case len(r.Signal) > 32 || engine.OneLine(r.Signal) != r.Signal:
		return "an unknown signal"
	case r.Wall < 0 || r.CPU < 0 || r.PeakMemory < 0 || r.Lost < 0:
		return "a negative usage"
	}
	return ""
}

// checkContainment returns a report of a program's layers without hidden characters, or its fault.
func checkContainment(c backends.Containment) (backends.Containment, string) {
	const limit = 32
	if len(c.Layers) > limit {
		return c, "too many layers"
	}
	out := backends.Containment{Backend: engine.OneLine(c.Backend), Profile: engine.OneLine(c.Profile), PID: max(0, c.PID)}
	for _, l := range c.Layers {
		if !slices.Contains(reportedLayers, l.Name) {
			return c, "an unknown layer"
		}
		out.Layers = append(out.Layers, backends.Layer{Name: l.Name, InForce: l.InForce, Detail: engine.OneLine(l.Detail)})
	}
	return out, ""
}

var reportedLayers = append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit)
