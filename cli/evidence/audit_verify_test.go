package evidence

import (
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// Rows that stay unsigned for longer than promised could have been cut off: an error.
func TestUnsignedTooLong(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	r := audit.Report{Rows: 9, Checkpoint: &audit.CheckedPoint{Size: 6, Signed: true}, Unsigned: 3, UnsignedSince: now.Add(-maxUnsigned)}
	if err := reportError(r, now); err != nil {
		t.Errorf("after %v: %v", maxUnsigned, err)
	}
	if err := reportError(r, now.Add(time.Second)); err == nil ||
		!strings.Contains(err.Error(), "3 rows at the end of the log are not signed") {
		t.Errorf("a second later: %v", err)
	}
	r.Unsigned, r.UnsignedSince = 0, time.Time{}
	if err := reportError(r, now); err != nil {
		t.Errorf("all are signed: %v", err)
	}
}
