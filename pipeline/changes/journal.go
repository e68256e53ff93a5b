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

// step changes one path from one state to another. A path may have several consecutive steps.
type step struct {
	Path     name      `json:"path"`
	From     State     `json:"from"`
	To       State     `json:"to"`
	Modified time.Time `json:"modified,omitzero"` // of the new file
	Was      time.Time `json:"was,omitzero"`      // of the file there before

	old  fs.FileInfo // the file of which the state From was read; nil after a kill
	done bool
}

// reverse returns the steps that undo steps, the last first.
func reverse(steps []step) []step {
	back := make([]step, len(steps))
	for i, s := range steps {
		back[len(steps)-1-i] = step{Path: s.Path, From: s.To, To: s.From, Modified: s.Was, Was: s.Modified}
	}
	return back
}

// journal is on the disk while the steps of a set are performed. Without steps, files are being staged.
type journal struct {
	Token  string `json:"token"`  // the set's token once all steps are done
	Status string `json:"status"` // the set's status once all steps are done
	Steps  []step `json:"steps"`
	Record []step `json:"record"` // the steps of former applies
}

const (
	journalName = "journal.json"
	recordName  = "applied.json" // the steps that an undo reverses
	headerName  = "set.json"
	entriesName = "entries.json"
	contentName = "content"
	fileKind    = "changes" // of temporary files, for statefile
)

// readJSON reads a file into v, and leaves v as it is if the file is missing.
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

// removeFile removes a file durably. A missing file is not an error.
func removeFile(dir, file string) error {
	if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return statefile.SyncDir(dir)
}
