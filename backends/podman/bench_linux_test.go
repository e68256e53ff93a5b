package podman

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// BenchmarkParked runs programs in containers that were started ahead.
func BenchmarkParked(b *testing.B) {
	url := enginetest.Podman(b)
	enginetest.Parked(b, url, func() container.Engine { return New(Config{Host: url}) })
}
