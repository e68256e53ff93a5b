package backends

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Change is one path of a proposed workspace after a program, see [Mount].
type Change struct {
	Name    string      // relative to the workspace, slash separated; any bytes but NUL
	Removed bool        // the path is gone; the fields below are zero
	Mode    fs.FileMode // type and permission bits as in lstat, also set-user-ID bits, devices, sockets and FIFOs
	Size    int64       // bytes
	ModTime time.Time
	ID      FileID                        // of a regular file
	Target  string                        // of a symbolic link
	Open    func() (io.ReadCloser, error) // of a regular file, as [File.Open]
}

// ErrNotProposed is the error of [Files].Changes for a workspace without proposed changes.
var ErrNotProposed = Refuse("the workspace was not started with proposed changes")

// checkProposal refuses proposed changes unless the workspace is a read-only directory of the host.
func checkProposal(spec Spec) error {
	for _, m := range spec.Mounts {
		if m.Propose {
			return RefuseMount(m.Host, "can't have proposed changes, which only a workspace has")
		}
	}
	switch w := spec.Workspace; {
	case w.Propose && w.Host == "":
		return Refuse("changes can be proposed only to a workspace of the host")
	case w.Propose && w.Write:
		return RefuseMount(w.Host, "can't be writable and have proposed changes at once")
	}
	return nil
}

// RefuseCopy refuses a proposed workspace that does not fit on the disk of a sandbox; why is the reason for working on
// a copy.
func RefuseCopy(spec Spec, why string) error {
	return Refuse(fmt.Sprintf("%s does not fit on the sandbox's disk of %d MiB, to which it has to be copied: %s",
		spec.Workspace.Host, spec.Limits.WithDefaults().Disk>>20, why), "show a directory with less in it, or raise the limit with ", remedy.Disk)
}

// HiddenIn returns the names in a directory of the host, relative to it, that no copy may contain.
func (h Hidden) HiddenIn(host string) map[string]bool {
	names := map[string]bool{}
	for _, c := range h.CoversIn(Mount{Host: host}) {
		names[path.Clean(c.Inside)] = true
	}
	return names
}
