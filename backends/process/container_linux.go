package process

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// containerSetup is the plan of PID 1's stand-in inside a container (Config.Inside). As in the profile
// "landlock" there are no namespaces of our own and the stand-in is a subreaper; but what is around it is
// the container's alone, so that it may listen there, and its folders are those of a hardened sandbox.
func (b *Backend) containerSetup(s *sandbox) *plan {
	p := newPlan()
	p.prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)
	doors := listeners(p, s.sockets)
	b.settle(p, s, workspace, segments(), "/tmp", doors...)
	return p
}

// disks are the folders of a container that programs can write to, each a file system of its own. A workspace
// that is the host's is none.
var disks = []string{workspace, "/tmp", "/dev/shm"}

// maxFiles is how many names each of them may hold, also where the engine could not be told to bound
// them: as many as a hardened sandbox's.
const maxFiles = 256 << 10

// pollContainer sees the container's cgroup without ourselves: the container's PID 1 and the launcher
// are in it, too.
func (s *sandbox) pollContainer(_ int64, open sockstat) reading {
	return reading{ram: s.cgroup.Anonymous() + open.unaccepted() - s.diskUsed() - s.ourselves()}
}

// ourselves is what PID 1 and the launchers hold, in bytes.
func (s *sandbox) ourselves() int64 {
	sum := kib(statusField(s.read("self/status"), "RssAnon"))
	for _, pid := range s.backend.launchers.pids() {
		sum += kib(statusField(s.read(pid+"/status"), "RssAnon"))
	}
	return sum
}

// Runtime is the interpreter for a language, found once, without its version; the reason stands in Why where
// there is none.
func (b *Backend) Runtime(ctx context.Context, language string) backends.Runtime {
	r, err := b.runtime(ctx, language)
	if err != nil {
		return backends.Runtime{Name: language, Why: err.Error()}
	}
	return backends.Runtime{Name: language, Path: r.Path, Why: r.Why}
}
