package audit

import (
	"fmt"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// openFile opens a regular file beside the log. It does not block on a FIFO that somebody may have put in its place.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|statefile.NoWait, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is no file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
