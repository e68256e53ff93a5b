package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Recover completes the changes that a kill or an error interrupted: it performs all steps or, if the host has changed
// meanwhile, none. It skips a directory that another process has locked.
func (s *Store) Recover(ctx context.Context) error {
	sets, err := s.List(Filter{Status: StatusApplying})
	for _, set := range sets {
		unlock, lockErr := s.lock(ctx, set.Dir, time.Millisecond)
		if lockErr != nil {
			continue
		}
		err = errors.Join(err, s.recoverSet(ctx, set.ID))
		unlock()
	}
	return err
}

// recoverDir is Recover for one directory, which is locked.
func (s *Store) recoverDir(ctx context.Context, dir string) error {
	sets, err := s.List(Filter{Dir: dir, Status: StatusApplying})
	for _, set := range sets {
		err = errors.Join(err, s.recoverSet(ctx, set.ID))
	}
	return err
}

func (s *Store) recoverSet(ctx context.Context, id string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("finish the interrupted change set %s: %w", id, err)
		}
	}()
	h, err := s.readHeader(id)
	if err != nil || h.Status != StatusApplying {
		return err
	}
	var j journal
	if err := readJSON(s.path(id), journalName, &j); err != nil {
		return err
	}
	w, err := s.newWorker(ctx, h)
	if err != nil {
		return err
	}
	defer w.close()
	if len(j.Steps) == 0 || j.Token == h.Last {
		return s.cleanUp(w, s.path(id))
	}
	w.steps = j.Steps
	if err := w.openStage(false); err != nil && !isNothing(err) {
		return err
	}
	if err := w.locate(); err != nil {
		return err
	}
	if w.stage == nil { // somebody removed the stage: the steps that are done stay
		j.Steps = slices.DeleteFunc(w.steps, func(st step) bool { return !st.done })
		w.steps = j.Steps
	}
	if len(j.Steps) == 0 {
		return s.cleanUp(w, s.path(id))
	}
	err = w.run()
	if err == nil {
		return s.finish(w, h, j)
	}
	if _, half := errors.AsType[*halfway](err); half {
		return err
	}
	return errors.Join(err, s.cleanUp(w, s.path(id)))
}

// locate finds out which steps are done: a path is in the state after its last completed step. If somebody has changed
// a path since, its first step fails, and all other steps are rolled back.
func (w *worker) locate() error {
	if err := w.finishExchanges(); err != nil {
		return err
	}
	of := map[name][]*step{}
	for i := range w.steps {
		s := &w.steps[i]
		of[s.Path] = append(of[s.Path], s)
	}
	for full, steps := range of {
		now, _, err := w.tree.state(w.ctx, string(full))
		if err != nil {
			return err
		}
		done := 0
		for i, s := range steps {
			if same(now, s.To) {
				done = i + 1
			}
		}
		for _, s := range steps[:done] {
			s.done = true
		}
	}
	return nil
}

// finishExchanges completes interrupted exchanges on file systems without an atomic exchange.
func (w *worker) finishExchanges() error {
	if w.stage == nil {
		return nil
	}
	f, err := w.stage.Open(".")
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, base := range names {
		number, is := strings.CutSuffix(base, ".old")
		i, convErr := strconv.Atoi(number)
		if !is || convErr != nil || i >= len(w.steps) {
			continue
		}
		there, err := w.tree.place(string(w.steps[i].Path))
		if err != nil {
			return err
		}
		spare := placeIn(w.stage, w.name, base)
		err = w.tree.move(spare, there)
		if errors.Is(err, fs.ErrExist) {
			err = w.tree.move(spare, placeIn(w.stage, w.name, number))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
