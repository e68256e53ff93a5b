package packages

import (
	"runtime"
	"strings"
	"testing"
)

// TestHostGetsNoSecrets checks which variables of our environment a package manager gets.
func TestHostGetsNoSecrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	t.Setenv("SANDBOXMCP_SECRET_TEAM_KEY", "x")
	t.Setenv("PIP_INDEX_URL", "x")
	c, err := runConfigurationQuery(t.Context(), t.TempDir(), "sh", "-c", `printf '{"proxy":"%s"}' "$(env | cut -d= -f1 | tr '\n' ' ')"`)
	if err != nil {
		t.Fatal(err)
	}
	if text := c.Proxy; !strings.Contains(text, "PIP_INDEX_URL ") || strings.Contains(text, "SANDBOXMCP_SECRET_") {
		t.Errorf("it gets no environment, or one with secrets: %d bytes", len(text))
	}
}
