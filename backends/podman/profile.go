package podman

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// profile is a file with a seccomp profile, which Podman wants to read by itself while it makes a container. It is
// called after what is in it, and stays: so there is one for each version of us, and none more for a server
// that is killed. It is no secret, and an engine of another user must be able to read it.
func (e *Engine) profile(text string) (string, error) {
	folder, err := e.folder()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	name := filepath.Join(folder, "seccomp-"+hex.EncodeToString(sum[:8])+".json")
	if there, err := os.ReadFile(name); err == nil && string(there) == text {
		return name, nil
	}
	return name, statefile.Replace(name, "podman", []byte(text), 0o644)
}

// folder is where files can be. If nobody named one, it is ours alone, and goes when the engine is closed: in the folder
// for temporary files, others could have put something there under any name that they can foresee.
func (e *Engine) folder() (string, error) {
	if e.config.Folder != "" {
		return e.config.Folder, os.MkdirAll(e.config.Folder, 0o700)
	}
	e.gate <- struct{}{}
	defer func() { <-e.gate }()
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
