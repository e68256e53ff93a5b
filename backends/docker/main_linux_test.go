package docker

import (
	"os"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	_ "github.com/sandboxmcp/sandboxmcp/backends/container/inside" // this binary is its own init in a container
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }
