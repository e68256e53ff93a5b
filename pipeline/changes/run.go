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

// run performs all steps that are not done, or none: if one fails, run rolls back those before it.
func (w *worker) run() error {
	for i := range w.steps {
		s := &w.steps[i]
		if s.done {
			continue
		}
		err := w.ctx.Err()
		if err == nil {
			err = w.do(s, strconv.Itoa(i))
		}
		if err == nil {
			s.done = true
			continue
		}
		if left := w.rollBack(); left != nil {
			return &halfway{err, left}
		}
		if c, ok := errors.AsType[*Conflicts](err); ok {
			return c
		}
		return fmt.Errorf("%s: %w", quoteName(string(s.Path)), bare(err))
	}
	return nil
}

// halfway is the error of a run that failed and could not be rolled back.
type halfway struct{ err, left error }

func (h *halfway) Error() string {
	return fmt.Sprintf("%v; and what was done before could not be taken back, which the next command tries again: %v", h.err, h.left)
}

func (h *halfway) Unwrap() []error { return []error{h.err, h.left} }

func conflict(s *step, why string) error { return &Conflicts{[]Conflict{{string(s.Path), why}}} }

// do performs one step.
func (w *worker) do(s *step, number string) error {
	there, err := w.tree.place(string(s.Path))
	if isNothing(err) {
		return conflict(s, "has no directory any more")
	}
	if err != nil {
		return err
	}
	staged := placeIn(w.stage, w.name, number)
	if err := w.tree.at("step"); err != nil {
		return err
	}
	switch {
	case s.isMode():
		err := w.setMode(s, there, s.From, s.To)
		if info, statErr := there.dir.Lstat(there.base); err == nil && statErr == nil {
			s.To.Mode = uint32(info.Mode().Perm())
		}
		return err
	case s.From.Kind == "":
		err = w.tree.move(staged, there)
		if errors.Is(err, fs.ErrExist) {
			return conflict(s, "is there by now")
		}
		return err
	case s.To.Kind == "":
		err = w.tree.move(there, staged)
	default:
		err = w.tree.exchange(staged, there, placeIn(w.stage, w.name, number+".old"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return conflict(s, "is gone by now")
	}
	if err != nil {
		return err
	}
	if w.isOld(s, staged) {
		return nil
	}
	if s.To.Kind == "" {
		err = w.tree.move(staged, there)
	} else {
		err = w.tree.exchange(staged, there, placeIn(w.stage, w.name, number+".old"))
	}
	return errors.Join(conflict(s, "changed while it was being applied"), err)
}

// isOld reports whether the file that a step moved to the stage is the one of which its state was read.
func (w *worker) isOld(s *step, staged place) bool {
	if s.From.Kind == Directory {
		d, err := staged.dir.Open(staged.base)
		if err != nil {
			return false
		}
		defer d.Close()
		names, _ := d.Readdirnames(1)
		return len(names) == 0
	}
	if now, err := staged.dir.Lstat(staged.base); err == nil && s.old != nil && os.SameFile(s.old, now) && s.old.Size() == now.Size() &&
		s.old.Mode() == now.Mode() && s.old.ModTime().Equal(now.ModTime()) && time.Since(now.ModTime()) > time.Second {
		return true
	}
	now, _, err := stateIn(w.ctx, staged.dir, staged.base)
	return err == nil && same(now, s.From)
}

// setMode changes the permission bits of a path, if its present bits and its kind are as expected.
func (w *worker) setMode(s *step, there place, from, to State) error {
	info, err := there.dir.Lstat(there.base)
	if isNothing(err) {
		return conflict(s, "is gone by now")
	}
	if err != nil {
		return err
	}
	if kindOf(info.Mode()) != from.Kind || uint32(info.Mode().Perm()) != from.Mode {
		return conflict(s, "changed while it was being applied")
	}
	if w.tree.modeless {
		return nil
	}
	return chmod(there, info, to.Mode)
}

// rollBack undoes the completed steps, the last first. A path that somebody else has changed since stays as it is,
// since that content is newer.
func (w *worker) rollBack() (left error) {
	w.ctx = context.WithoutCancel(w.ctx)
	for i := len(w.steps) - 1; i >= 0; i-- {
		s := &w.steps[i]
		if !s.done {
			continue
		}
		if err := w.takeBack(s, strconv.Itoa(i)); err != nil {
			left = errors.Join(left, fmt.Errorf("%s: %w", quoteName(string(s.Path)), bare(err)))
			continue
		}
		s.done = false
	}
	return left
}

func (w *worker) takeBack(s *step, number string) error {
	there, err := w.tree.place(string(s.Path))
	if isNothing(err) {
		return nil // the path is gone with its directory
	}
	if err != nil {
		return err
	}
	if err := w.tree.at("take back"); err != nil {
		return err
	}
	if s.isMode() {
		if err := w.setMode(s, there, s.To, s.From); err != nil && !errors.As(err, new(*Conflicts)) {
			return err
		}
		return nil
	}
	now, _, err := stateIn(w.ctx, there.dir, there.base)
	if err != nil || !same(now, s.To) {
		return err
	}
	staged := placeIn(w.stage, w.name, number)
	if err := w.swapBack(s, number, staged, there); err != nil || s.To.Kind == "" {
		return err
	}
	if now, _, err := stateIn(w.ctx, staged.dir, staged.base); err == nil && !same(now, s.To) {
		return w.swapBack(s, number, there, staged) // somebody changed the path in this moment
	}
	return nil
}

func (w *worker) swapBack(s *step, number string, staged, there place) error {
	switch {
	case s.From.Kind == "":
		return w.tree.move(there, staged)
	case s.To.Kind == "":
		return w.tree.move(staged, there)
	}
	return w.tree.exchange(staged, there, placeIn(w.stage, w.name, number+".old"))
}
