package cli

import (
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// hostOf is what the configuration allows on the host. What is not understood is an error, also while it is off: it
// would allow or block something else than the operator means.
func hostOf(cfg config.Config) (pipeline.Host, error) {
	h := cfg.Host
	const hint = "sandboxmcp config shows where it is set"
	policy, err := host.NewPolicy(host.Rules{Allowed: h.Allowed, Blocked: h.Blocked, Read: h.Read, Write: h.Write})
	if err != nil {
		return pipeline.Host{}, usage(hint, "host.%v", err)
	}
	if err := host.CheckEnvironment(h.Environment); err != nil {
		return pipeline.Host{}, usage(hint, "host.environment: %v", err)
	}
	return pipeline.Host{Enabled: h.Enabled, Policy: policy, Timeout: time.Duration(h.TimeoutSeconds) * time.Second,
		Output: h.OutputBytes, Bounds: launch.Bounds{RAM: h.RAMMB << 20, Processes: h.Processes, CPU: float64(h.CPUCores)}, Environment: h.Environment}, nil
}
