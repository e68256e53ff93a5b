package agent

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Bounds of a home, which is on the disk of this machine and not on the sandbox's own.
const (
	maxHomeBytes = 8 << 30
	maxHomeFiles = 1_000_000
	minFree      = 256 << 20 // bytes that an agent leaves on the disk
)

// How often the free space and the home itself are measured.
const (
	spaceInterval = 200 * time.Millisecond
	homeInterval  = 10 * time.Second
	homeStep      = 64 << 20 // and when that many bytes are gone
)

// watch ends the agent when its home is too large, until the returned function is called.
func (s *session) watch(stop *pipeline.Stopper) (ended func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		ticker := time.NewTicker(spaceInterval)
		defer ticker.Stop()
		start, total := statefile.Space(s.home)
		last, measured := start, time.Now()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			free, _ := statefile.Space(s.home)
			if last-free < homeStep && time.Since(measured) < homeInterval {
				continue
			}
			since := time.Now()
			size, files := measureTree(s.home)
			last, measured = free, time.Now().Add(10*time.Since(since)) // a large home is measured less often
			switch {
			case size > maxHomeBytes:
				s.ended = fmt.Sprintf("its home has more than %d GB", maxHomeBytes>>30)
			case files > maxHomeFiles:
				s.ended = fmt.Sprintf("its home has more than %d files", maxHomeFiles)
			case total > 0 && free < minFree && start-free > minFree:
				s.ended = "the disk of its home is full"
			default:
				continue
			}
			stop.Signal(syscall.SIGTERM)
			stop.Signal(syscall.SIGTERM) // kills it
			return
		}
	}()
	return func() {
		close(done)
		<-over
	}
}

// measureTree returns the disk space and the number of files of a directory, up to the bounds of a home.
func measureTree(dir string) (size int64, files int) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // programs remove files meanwhile
		}
		if files++; files > maxHomeFiles || size > maxHomeBytes {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			size += diskSize(info)
		}
		return nil
	})
	return size, files
}
