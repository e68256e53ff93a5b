package podman

import (
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// inspected is the part of a container's description that we use.
type inspected struct {
	ID     string
	State  state
	Mounts []struct{ Destination string }

	HostConfig struct {
		Devices []struct{ PathInContainer string }
	}
}

type state struct {
	Status    string
	PID       int
	ExitCode  int
	OOMKilled bool
	Error     string
}

// begun reports whether its program was ever started.
func (s state) begun() bool {
	switch s.Status {
	case "created", "configured", "initialized":
		return false
	}
	return true
}

// ended reports whether its program has ended, and its exit.
func (s state) ended() (container.Exit, bool) {
	switch s.Status {
	case "stopped", "exited", "removing":
		return container.Exit{Code: s.ExitCode, OOM: s.OOMKilled, Why: engine.Plain(s.Error)}, true
	}
	return container.Exit{}, false
}

func inspect(id string) request {
	return request{method: http.MethodGet, path: "/containers/" + url.PathEscape(id) + "/json", again: true}
}
