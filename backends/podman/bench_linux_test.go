package podman

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// BenchmarkPool runs programs in prestarted containers.
func BenchmarkPool(b *testing.B) {
	url, dir := enginetest.Podman(b), b.TempDir()
	enginetest.BenchPool(b, url, func() container.Engine { return New(Config{Host: url, Dir: dir}) })
}
