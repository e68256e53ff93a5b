package backends

import (
	"fmt"
	"slices"
)

// MaxSockets bounds the sockets inside a sandbox: PID 1 passes all of them to the host in one message.
const MaxSockets = 24

// CheckPorts refuses ports of Spec.Listen and Spec.Gateway that one sandbox can't all open.
func CheckPorts(spec Spec) error {
	ports := slices.Concat(spec.Listen, spec.Gateway)
	room := MaxSockets
	if spec.Resolves() {
		room -= 2 // for names
	}
	if len(ports) > room {
		return &Refusal{Reason: fmt.Sprintf("%d different ports lead out of the sandbox, and it can have %d", len(ports), room), Remedy: "allow fewer ports"}
	}
	for i, port := range ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%d is no port", port)
		}
		if port == DNSPort && spec.Resolves() || slices.Contains(ports[:i], port) {
			return &Refusal{Reason: fmt.Sprintf("port %d is taken inside", port), Remedy: "leave that port out"}
		}
	}
	return nil
}
