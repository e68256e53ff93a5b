package podman

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// TestContract runs the attacks that all backends share.
func TestContract(t *testing.T) {
	url, dir := enginetest.Podman(t), t.TempDir()
	enginetest.Contract(t, url, false, func() container.Engine { return New(Config{Host: url, Dir: dir}) })
}

// TestHostileImages runs programs in images whose files collide with the backend's mounts.
func TestHostileImages(t *testing.T) {
	url, dir := enginetest.Podman(t), t.TempDir()
	enginetest.HostileImages(t, url, func() container.Engine { return New(Config{Host: url, Dir: dir}) })
}

// TestHidden tries to read files and directories that the server hides.
func TestHidden(t *testing.T) {
	url, dir := enginetest.Podman(t), t.TempDir()
	enginetest.Hidden(t, url, func() container.Engine { return New(Config{Host: url, Dir: dir}) })
}
