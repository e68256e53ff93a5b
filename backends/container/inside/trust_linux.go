package inside

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// trust writes the file that programs' variables name: what the image trusts, and more. Where the server could
// mount it, it stands there already.
func trust(more []byte) error {
	if len(more) == 0 {
		return nil
	}
	if has, err := os.ReadFile(backends.TrustFile); err == nil && bytes.Contains(has, more) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(backends.TrustFile), 0o755); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	if err := os.WriteFile(backends.TrustFile, backends.Trusted(more), 0o644); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	return nil
}
