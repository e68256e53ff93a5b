package container

import (
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// RunDirs returns the directories for the run directories of processes with a state directory, the one for new ones
// first. It depends on XDG_RUNTIME_DIR, since a state directory may be on a file system without sockets, such as a
// network file system.
func RunDirs(stateDir string) ([]string, error) {
	id, err := stateID(stateDir)
	if err != nil {
		return nil, err
	}
	dirs := []string{filepath.Join(stateDir, "c", id)}
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	if info, err := os.Stat(runtimeDir); err == nil && filepath.IsAbs(runtimeDir) && info.IsDir() && statefile.IsOurs(info) {
		dirs = append([]string{filepath.Join(runtimeDir, "sandboxmcp", "c", id)}, dirs...)
	}
	return dirs, nil
}

// RemoveDeadRuns removes the run directories of a state directory's killed processes, also of those that had
// another XDG_RUNTIME_DIR or none. It uses no engine, and leaves the locks of these processes, by which the next
// process that uses an engine finds their containers.
func RemoveDeadRuns(stateDir string) {
	dirs, _ := RunDirs(stateDir)
	for _, dir := range dirs {
		i := &serverLock{locks: locksDir(stateDir), runs: dir}
		i.removeRuns()
		os.Remove(dir) // if it is empty
	}
}

// removeRuns removes the run directories of dead servers.
func (i *serverLock) removeRuns() {
	for _, name := range lockNames(i.runs, "") {
		if !i.alive(name) {
			os.RemoveAll(filepath.Join(i.runs, name))
		}
	}
}
