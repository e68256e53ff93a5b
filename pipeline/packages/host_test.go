package packages

import (
	"runtime"
	"strings"
	"testing"
)

// TestHostGetsNoSecrets looks at what a package manager gets of our environment.
func TestHostGetsNoSecrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no env")
	}
	t.Setenv("SANDBOXMCP_SECRET_TEAM_KEY", "x")
	t.Setenv("PIP_INDEX_URL", "x")
	out, err := host{dir: t.TempDir()}.run(t.Context(), "env")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(out); !strings.Contains(text, "PIP_INDEX_URL=") || strings.Contains(text, "SANDBOXMCP_SECRET_") {
		t.Errorf("it gets no environment, or one with secrets: %d bytes", len(text))
	}
}
