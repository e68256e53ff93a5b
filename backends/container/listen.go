package container

import (
	"fmt"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// maxListen is how many sockets can be opened inside. The process backend, which opens them there, hands
// over as many in one message.
const maxListen = 24

// checkListen refuses sockets that can't be, as the process backend does, before there is a container.
func checkListen(spec backends.Spec) error {
	ports := slices.Concat(spec.Listen, spec.Gateway)
	most := maxListen
	if len(spec.Gateway) > 0 {
		most -= 2 // for names
	}
	if len(ports) > most {
		return &backends.Refusal{Reason: fmt.Sprintf("%d different ports lead out of the sandbox, and it can have %d", len(ports), most), Remedy: "allow fewer ports"}
	}
	for i, port := range ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%d is no port", port)
		}
		if port == backends.DNSPort && len(spec.Gateway) > 0 || slices.Contains(ports[:i], port) {
			return &backends.Refusal{Reason: fmt.Sprintf("port %d is taken inside", port), Remedy: "leave that port out"}
		}
	}
	return nil
}
