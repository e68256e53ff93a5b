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
	// tempDirAge is when a directory can only be a dead process's: a sandbox starts in milliseconds.
	tempDirAge = time.Hour
)

// TempDir makes a directory for what a sandbox is shown while it starts, below temp or where temporary
// files go, and sweeps temp. The sandbox's user must get to the files; the directory's name can't be
// guessed by others.
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

// makeTemp makes temp, and what is missing above it, which nobody else needs to get through.
func makeTemp(temp string) error {
	if err := os.MkdirAll(filepath.Dir(temp), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(temp, 0o711)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(temp, 0o711) // whatever the umask
	}
	return err
}

// removeOldTemp removes the directories of tempDir that are older than a time. One that can't be removed is left
// to the next sweep.
func removeOldTemp(temp string, before time.Time) {
	entries, _ := os.ReadDir(temp)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), TempDirPrefix) && info.ModTime().Before(before) {
			os.RemoveAll(filepath.Join(temp, e.Name()))
		}
	}
}
