package call

import (
	"context"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// allowedEnds are the ends that an init may report: ends by policy are the server's.
var allowedEnds = []string{
	backends.EndedOK, backends.EndedExit, backends.EndedSignal, backends.EndedTimeout,
	backends.EndedOOM, backends.EndedLimit, backends.EndedCancelled,
}

var limitNames = []string{"ram", "wall", "processes", "disk", "cpu", "sockets"}

// checkResult returns the fault of a result, "" if it has none. A result that passes may still be a lie: it
// comes from beside the program.
func checkResult(ctx context.Context, r backends.Result) string {
	known := func(name string) bool { return slices.Contains(limitNames, name) }
	switch {
	case !slices.Contains(allowedEnds, r.Ended):
		return "an end that there is not"
	case r.Ended == backends.EndedCancelled && ctx.Err() == nil:
		return "a command is cancelled that nobody has"
	case r.ExitCode < 0 || r.ExitCode > 255 || (r.ExitCode == 0) != (r.Ended == backends.EndedOK):
		return "an exit code that does not fit"
	case r.Limit != "" && !known(r.Limit):
		return "a limit that there is not"
	case len(r.Hit) > 2*len(limitNames) || slices.ContainsFunc(r.Hit, func(h string) bool { return !known(h) }):
		return "limits that there are not"
	case len(r.Signal) > 32 || engine.Plain(r.Signal) != r.Signal:
		return "a signal that there is not"
	case r.Wall < 0 || r.CPU < 0 || r.PeakMemory < 0 || r.Lost < 0:
		return "less than nothing was used"
	}
	return ""
}

// checkContainment returns a report of the layers that contain a program without hidden characters, or its fault.
func checkContainment(c backends.Containment) (backends.Containment, string) {
	const limit = 32
	if len(c.Layers) > limit {
		return c, "too many layers"
	}
	out := backends.Containment{Backend: engine.Plain(c.Backend), Profile: engine.Plain(c.Profile), PID: max(0, c.PID)}
	for _, l := range c.Layers {
		if !slices.Contains(reportedLayers, l.Name) {
			return c, "a layer that there is not"
		}
		out.Layers = append(out.Layers, backends.Layer{Name: l.Name, InForce: l.InForce, Detail: engine.Plain(l.Detail)})
	}
	return out, ""
}

var reportedLayers = append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit)
