package changes

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// step changes one path from a state to another. A path may have several, one after the other.
type step struct {
	Path     name      `json:"path"`
	From     State     `json:"from"`
	To       State     `json:"to"`
	Modified time.Time `json:"modified,omitzero"` // of what is put there
	Was      time.Time `json:"was,omitzero"`      // of what is there before

	old  fs.FileInfo // what the state From was read of; nil after a kill
	done bool
}

// reverse returns the steps that lead back.
func reverse(steps []step) []step {
	back := make([]step, len(steps))
	for i, s := range steps {
		back[len(steps)-1-i] = step{Path: s.Path, From: s.To, To: s.From, Modified: s.Was, Was: s.Modified}
	}
	return back
}

// journal is on the disk while the steps of a set are done. Without steps, files are being staged.
type journal struct {
	Token  string `json:"token"`  // which the set has once all is done
	Status string `json:"status"` // that the set has then
	Steps  []step `json:"steps"`
	Record []step `json:"record"` // those of former applies
}

const (
	journalName = "journal.json"
	recordName  = "applied.json" // the steps that an undo goes back
	headerName  = "set.json"
	entriesName = "entries.json"
	contentName = "content"
	fileKind    = "changes" // of temporary files, for statefile
)

// readJSON leaves v as it is where the file is missing.
func readJSON(dir, file string, v any) error {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func writeJSON(dir, file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return statefile.Replace(filepath.Join(dir, file), fileKind, b, 0o600)
}

// removeFile removes a file that may be missing, for good.
func removeFile(dir, file string) error {
	if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return statefile.SyncDir(dir)
}
