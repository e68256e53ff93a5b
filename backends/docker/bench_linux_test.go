package docker

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// BenchmarkPool runs programs in prestarted containers.
func BenchmarkPool(b *testing.B) {
	url := enginetest.Docker(b)
	enginetest.BenchPool(b, url, func() container.Engine { return New(Config{Host: url}) })
}
