package docker

import (
	"crypto/sha256"
	"crypto/tls"
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
		home := variable(environ, "HOME")
		if home == "" {
			home = variable(environ, "USERPROFILE")
		}
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
		return "", nil, &backends.Refusal{
			Reason: fmt.Sprintf("there is no Docker context %q", name),
			Remedy: "docker context ls shows those that there are; docker context use NAME chooses one",
		}
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
