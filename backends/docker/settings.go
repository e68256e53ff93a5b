package docker

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// settings is the part of the configuration of Docker's command (~/.docker/config.json) that we use.
type settings struct {
	dir     string
	environ []string

	CurrentContext string                 `json:"currentContext"`
	Auths          map[string]credentials `json:"auths"`
	Helpers        map[string]string      `json:"credHelpers"` // by registry
	Store          string                 `json:"credsStore"`  // the helper for all others
}

// readSettings reads the user's configuration. A missing one is no error.
func readSettings(environ []string) (*settings, error) {
	s := &settings{dir: variable(environ, "DOCKER_CONFIG"), environ: environ}
	if s.dir == "" {
		home := cmp.Or(variable(environ, "HOME"), variable(environ, "USERPROFILE"))
		if home == "" {
			return s, nil
		}
		s.dir = filepath.Join(home, ".docker")
	}
	path := filepath.Join(s.dir, "config.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Docker's configuration: %w", err)
	}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("read Docker's configuration %s: %w", path, err)
	}
	return s, nil
}

// context looks up a Docker context: its address, and its certificates.
func (s *settings) context(name string) (string, *tls.Config, error) {
	// A directory has the hash of the context's name as its name, so no name can lead elsewhere.
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	b, err := os.ReadFile(filepath.Join(s.dir, "contexts", "meta", id, "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, backends.Refuse(fmt.Sprintf("there is no Docker context %q", name), "docker context ls shows those that there are; docker context use NAME chooses one")
	}
	if err != nil {
		return "", nil, fmt.Errorf("read Docker context %q: %w", name, err)
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(b, &meta); err != nil {
		return "", nil, fmt.Errorf("read Docker context %q: %w", name, err)
	}
	end, ok := meta.Endpoints["docker"]
	if !ok || end.Host == "" {
		return "", nil, fmt.Errorf("read Docker context %q: it has no address of a Docker Engine", name)
	}
	secure, err := readTLS(filepath.Join(s.dir, "contexts", "tls", id, "docker"), end.SkipTLSVerify)
	if err != nil {
		return "", nil, fmt.Errorf("read Docker context %q: %w", name, err)
	}
	return end.Host, secure, nil
}

// environTLS returns the configuration of DOCKER_TLS_VERIFY and DOCKER_CERT_PATH; nil without them. Docker's command
// does not check the server's certificate where only the latter is set. We do: a forgotten variable must not open a
// root shell on a machine's Docker, or connect to an impostor.
func environTLS(environ []string, dir string) (*tls.Config, error) {
	path := variable(environ, "DOCKER_CERT_PATH")
	if path == "" && variable(environ, "DOCKER_TLS_VERIFY") == "" {
		return nil, nil
	}
	c, err := readTLS(cmp.Or(path, dir), false)
	if c == nil && err == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return c, err
}

// readTLS reads ca.pem, cert.pem and key.pem from a directory, as far as they exist; nil if none does and the server is
// to be verified as usual.
func readTLS(dir string, skip bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skip} // skip: the user's own words, in the context
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	found := err == nil
	if err == nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("read %s: it has no certificate", filepath.Join(dir, "ca.pem"))
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the certificate of Docker's authority: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err == nil {
		found = true
		c.Certificates = []tls.Certificate{pair}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read our certificate for Docker: %w", err)
	}
	if !found && !skip {
		return nil, nil
	}
	return c, nil
}
