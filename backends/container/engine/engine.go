// Package engine is what the clients of engines have in common.
//
// Library: distribution/reference takes the names of images apart as engines do.
package engine

import (
	"context"
	"time"
)

// Pause waits, and reports whether the context still stands.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
