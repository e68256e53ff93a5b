package cli

import (
	"io"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// screen shows lines of JSON on a terminal: each Write is one, and keeps its value.
type screen struct{ w io.Writer }

func (s screen) Write(line []byte) (int, error) {
	if _, err := s.w.Write(safetext.JSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
