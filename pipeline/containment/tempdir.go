package containment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	TempDirPrefix = "script-"
	// tempDirAge is the age at which a directory must belong to a dead process: a sandbox starts in milliseconds.
	tempDirAge = time.Hour
)

// TempDir creates a directory for files that are mounted while a sandbox starts, below temp or os.TempDir, and
// removes old ones from temp. The sandbox's user can traverse it; others can't guess its name.
func TempDir(temp string) (string, error) {
	prefix := "sandboxmcp-"
	if temp != "" {
		prefix = TempDirPrefix
		if err := makeTemp(temp); err != nil {
			return "", err
		}
		removeOldTemp(temp, time.Now().Add(-tempDirAge))
	}
	dir, err := os.MkdirTemp(temp, prefix)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// makeTemp creates temp, and its missing parents for us alone.
func makeTemp(temp string) error {
	if err := os.MkdirAll(filepath.Dir(temp), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(temp, 0o711)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(temp, 0o711) // independent of the umask
	}
	return err
}

// removeOldTemp removes the directories of TempDir that are older than a time. If one can't be removed, a later call
// tries again.
func removeOldTemp(temp string, before time.Time) {
	entries, _ := os.ReadDir(temp)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), TempDirPrefix) && info.ModTime().Before(before) {
			os.RemoveAll(filepath.Join(temp, e.Name()))
		}
	}
}
