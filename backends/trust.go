package backends

import (
	"bytes"
	"os"
)

// Bundles are the usual paths of a distribution's trusted certificates in one file: Debian, Fedora, openSUSE,
// Alpine and Arch. Go's crypto/x509 reads the same paths.
var Bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/pki/tls/cert.pem",
}

// TrustedWith returns the content of TrustFile: the certificates that this machine, or the image in which this
// process is PID 1, trusts, followed by more, which is PEM. It returns nil if more is empty.
func TrustedWith(more []byte) []byte {
	if len(more) == 0 {
		return nil
	}
	return append(Authorities(), more...)
}

// Authorities returns this machine's trusted certificates as PEM; nil if there is no such file.
func Authorities() []byte {
	for _, name := range Bundles {
		if all, err := os.ReadFile(name); err == nil && len(all) > 0 {
			if !bytes.HasSuffix(all, []byte("\n")) {
				all = append(all, '\n')
			}
			return all
		}
	}
	return nil
}

// TrustFile contains, in a sandbox with Spec.Trust, all certificates that programs trust.
const TrustFile = "/run/sandbox/trust.pem"
