package docker

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// TestContract runs the attacks that all backends share.
func TestContract(t *testing.T) {
	url := enginetest.Docker(t)
	enginetest.Contract(t, url, true, func() container.Engine { return New(Config{Host: url}) })
}

// TestHostileImages runs programs in images whose files collide with the backend's mounts.
func TestHostileImages(t *testing.T) {
	url := enginetest.Docker(t)
	enginetest.HostileImages(t, url, func() container.Engine { return New(Config{Host: url}) })
}

// TestHidden tries to read files and directories that the server hides.
func TestHidden(t *testing.T) {
	url := enginetest.Docker(t)
	enginetest.Hidden(t, url, func() container.Engine { return New(Config{Host: url}) })
}
