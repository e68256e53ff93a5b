package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// worker performs the steps of a journal in a tree. The stage is a directory of the tree. It holds the new file of each
// step and, once the step is done, the old one, both under the number of the step.
type worker struct {
	ctx     context.Context
	tree    *tree
	content *pack
	steps   []step
	stage   *os.Root
	name    string                 // of the stage
	parents map[string]fs.FileInfo // directories from which new files may inherit their owner
}

// isMode reports whether a step changes nothing but permission bits, in place.
func (s *step) isMode() bool {
	return s.From.Kind == s.To.Kind && (s.From.Kind == Directory || s.From.Kind == File && s.From.SHA256 == s.To.SHA256)
}

// openStage opens the stage, and creates it first if it is fresh.
func (w *worker) openStage(fresh bool) (err error) {
	if fresh {
		if err = w.tree.at("mkdir stage"); err == nil {
			err = w.tree.top.Mkdir(w.name, 0o700)
		}
	}
	if err == nil {
		w.stage, err = w.tree.dir(w.name)
	}
	if err == nil {
		w.stage, err = w.stage.OpenRoot(".") // this descriptor stays open while the tree opens other directories
	}
	return err
}

// fill creates the new file, link or directory of each step in the stage.
func (w *worker) fill() error {
	for i := range w.steps {
		s := &w.steps[i]
		if s.To.Kind == "" || s.isMode() {
			continue
		}
		if err := w.make(s, strconv.Itoa(i)); err != nil {
			return fmt.Errorf("make %s ready: %w", quoteName(string(s.Path)), bare(err))
		}
	}
	return nil
}

func (w *worker) make(s *step, base string) error {
	if err := w.ctx.Err(); err != nil {
		return context.Cause(w.ctx)
	}
	if err := w.tree.at("stage " + s.To.Kind); err != nil {
		return err
	}
	parent, err := w.parentInfo(string(s.Path))
	if err != nil {
		return err
	}
	old := s.old
	if s.From.Kind == "" {
		old = nil
	}
	switch s.To.Kind {
	case Link:
		if err := w.stage.Symlink(s.To.Target, base); err != nil {
			return err
		}
		inherit(w.stage, base, old, parent)
		return nil
	case Directory:
		if err := w.stage.Mkdir(base, 0o700); err != nil {
			return err
		}
		inherit(w.stage, base, old, parent)
		return w.setStagedMode(s, base, parent.Mode()&fs.ModeSetgid) // as mkdir(2) does in such a directory
	}
	f, err := w.stage.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = w.tree.at("write"); err == nil {
		err = w.content.copy(w.ctx, f, s.To)
	}
	if err == nil {
		inherit(w.stage, base, old, parent)
		err = w.setStagedMode(s, base, 0) // a change of the owner may have cleared bits
	}
	if err = errors.Join(err, syncStaged(f), f.Close()); err == nil && !s.Modified.IsZero() {
		err = w.stage.Chtimes(base, time.Time{}, s.Modified)
	}
	return err
}

// setStagedMode gives a staged file the mode of its step, or the step the mode that the file system assigns: FAT knows
// two modes.
func (w *worker) setStagedMode(s *step, base string, special fs.FileMode) error {
	if !w.tree.modeless {
		if err := w.stage.Chmod(base, fs.FileMode(s.To.Mode)|special); err != nil {
			return err
		}
	}
	info, err := w.stage.Lstat(base)
	if err == nil {
		s.To.Mode = uint32(info.Mode().Perm())
	}
	return err
}

// parentInfo returns the nearest existing directory above a path.
func (w *worker) parentInfo(name string) (info fs.FileInfo, err error) {
	up := dirOf(name)
	if info := w.parents[up]; info != nil {
		return info, nil
	}
	dir, err := w.tree.dir(up)
	if err == nil {
		info, err = dir.Stat(".")
	} else if isNothing(err) && up != "." {
		info, err = w.parentInfo(up)
	}
	if err == nil {
		w.parents[up] = info
	}
	return info, err
}

// removeStage removes the stage and its content.
func (w *worker) removeStage() error {
	if w.stage != nil {
		w.stage.Close()
		w.stage = nil
	}
	w.tree.reset()
	if err := w.tree.at("remove stage"); err != nil {
		return err
	}
	return w.tree.top.RemoveAll(w.name)
}
