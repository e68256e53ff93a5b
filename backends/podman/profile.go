package podman

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// profile returns a file with a seccomp profile, which Podman itself reads while it makes a container. The name is the
// hash of the content, and the file stays: so there is one for each version of us, and none more for a server that is
// killed. It is no secret, and an engine of another user must be able to read it.
func (e *Engine) profile(text string) (string, error) {
	dir, err := e.dir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	name := filepath.Join(dir, "seccomp-"+hex.EncodeToString(sum[:8])+".json")
	if there, err := os.ReadFile(name); err == nil && string(there) == text {
		return name, nil
	}
	return name, statefile.Replace(name, "podman", []byte(text), 0o644)
}

// dir returns the directory for files. A temporary one is ours alone, and removed when the engine is closed: in the
// shared directory for temporary files, others could have put something under any name that they can foresee.
func (e *Engine) dir() (string, error) {
	if e.config.Dir != "" {
		return e.config.Dir, os.MkdirAll(e.config.Dir, 0o700)
	}
	e.sem <- struct{}{}
	defer func() { <-e.sem }()
	if e.closed {
		return "", errClosed
	}
	if e.temp == "" {
		dir, err := os.MkdirTemp("", "sandboxmcp-podman-")
		if err != nil {
			return "", err
		}
		e.temp = dir
		if err := os.Chmod(dir, 0o711); err != nil {
			return "", err
		}
	}
	return e.temp, nil
}
