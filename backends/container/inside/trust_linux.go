package inside

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// bundles are where images keep the certificates that programs trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/pki/tls/cert.pem",
}

// trust writes the file that programs' variables name: what the image trusts, and more. Where the server could
// mount it, it stands there already.
func trust(more []byte) error {
	if len(more) == 0 {
		return nil
	}
	if has, err := os.ReadFile(backends.TrustFile); err == nil && bytes.Contains(has, more) {
		return nil
	}
	var content []byte
	for _, name := range bundles {
		if b, err := os.ReadFile(name); err == nil {
			content = slices.Concat(b, []byte("\n"))
			break
		}
	}
	if err := os.MkdirAll(filepath.Dir(backends.TrustFile), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write certificates: %w", err)
	}
	if err := os.WriteFile(backends.TrustFile, append(content, more...), 0o644); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	return nil
}
