package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

func (s *Store) newWorker(ctx context.Context, h header) (*worker, error) {
	t, err := openTree(h.Set.Dir)
	if err != nil {
		return nil, err
	}
	content, err := openPack(filepath.Join(s.path(h.ID), contentName), 1<<62)
	if err != nil {
		t.Close()
		return nil, err
	}
	t.reach, t.plain, t.modeless = s.reach, s.plain, s.modeless
	return &worker{ctx: ctx, tree: t, content: content, name: stagePrefix + h.ID, parents: map[string]fs.FileInfo{}}, nil
}

func (w *worker) close() {
	if w.stage != nil {
		w.stage.Close()
	}
	w.tree.Close()
	w.content.Close()
}

// perform stages the new files, writes the journal, performs its steps, and records the result.
func (s *Store) perform(w *worker, h header, j journal) error {
	dir := s.path(h.ID)
	w.steps = j.Steps
	err := w.content.finish()
	if err == nil {
		err = s.writeJournal(w, dir, journal{}) // an empty journal marks the set, so that recovery after a kill finds the stage
	}
	if err == nil {
		err = w.openStage(true)
	}
	if err == nil {
		err = w.fill()
	}
	if err == nil {
		if err = w.tree.at("sync stage"); err == nil {
			err = w.tree.syncAll()
		}
	}
	if err == nil {
		err = s.writeJournal(w, dir, j)
	}
	if err == nil {
		w.tree.reset() // time has passed since the plan
		err = w.run()
	}
	if _, half := errors.AsType[*halfway](err); half {
		return err
	}
	if err != nil {
		return errors.Join(err, s.cleanUp(w, dir))
	}
	return s.finish(w, h, j)
}

func (s *Store) writeJournal(w *worker, dir string, j journal) error {
	if err := w.tree.at("journal"); err != nil {
		return err
	}
	return writeJSON(dir, journalName, j)
}

// finish records that all steps of a journal are done. After a kill, finish may be called again.
func (s *Store) finish(w *worker, h header, j journal) error {
	dir := s.path(h.ID)
	err := w.tree.at("sync")
	if err == nil {
		err = w.tree.syncAll()
	}
	if err == nil {
		err = w.tree.at("record")
	}
	if err == nil {
		if record := append(j.Record, j.Steps...); j.Status == StatusUndone {
			err = removeFile(dir, recordName)
		} else {
			err = writeJSON(dir, recordName, record)
		}
	}
	if err == nil {
		err = w.tree.at("header")
	}
	if err == nil {
		h.Status, h.Last = j.Status, j.Token
		err = s.writeHeader(h)
	}
	if err != nil {
		return fmt.Errorf("all is done, but could not be recorded, which the next command tries again: %w", err)
	}
	return s.cleanUp(w, dir)
}

// cleanUp removes the stage, and then the journal that leads to it.
func (s *Store) cleanUp(w *worker, dir string) error {
	err := w.removeStage()
	if err == nil {
		err = w.tree.at("remove journal")
	}
	if err == nil {
		err = removeFile(dir, journalName)
	}
	if err != nil {
		return fmt.Errorf("remove %s, which the next command tries again: %w", strings.TrimSuffix(w.name, "/"), err)
	}
	return nil
}
