package container

import (
	"context"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"
)

// sweep removes what servers left that were killed: containers that were never started, or whose engine
// was down when they ended, and run folders. Only those of servers whose locks lie in our own state
// folder are judged, and only by their locks, never by age.
func (b *Backend) sweep(ctx context.Context, s *engineState) {
	left, err := b.engine.List(ctx, LabelState+"="+s.instance.stateID)
	if err != nil {
		return // the next server will try
	}
	clean := true
	for _, c := range left {
		name := c.Labels[LabelInstance]
		if _, err := ulid.ParseStrict(name); err != nil || c.Labels[LabelState] != s.instance.stateID || s.instance.alive(name) {
			continue
		}
		if b.engine.Remove(ctx, c.ID) != nil {
			clean = false
		}
	}
	for _, name := range lockNames(s.instance.runs, "") {
		if !s.instance.alive(name) {
			os.RemoveAll(filepath.Join(s.instance.runs, name))
		}
	}
	if clean {
		s.instance.removeDead()
	}
}
