package bench

import (
	"context"
	"os"
	"path/filepath"
)

func (b *bench) bareAndBubblewrap(ctx context.Context, found []*program) {
	for _, p := range found {
		b.ways = append(b.ways, &way{language: p.language, name: Bare, what: p.what, loaded: true, once: runs(clean(), p.bare()...)})
	}
	bwrap, err := installed("bwrap")
	if err != nil {
		b.leaveOut("bubblewrap", err)
		return
	}
	if v, err := output(ctx, clean(), bwrap, "--version"); err == nil {
		b.report.Machine.Versions["bubblewrap"] = versionIn(v)
	}
	for _, p := range found {
		b.ways = append(b.ways, &way{language: p.language, name: "bubblewrap", what: "bwrap --unshare-all ... " + p.what, loaded: true, once: runs(clean(), bubblewrap(bwrap, p)...)})
	}
}

// bubblewrap is a command line that gives a program about what our sandboxes give it, less Landlock, system call
// filter, limits, and the reading back.
func bubblewrap(bwrap string, p *program) []string {
	args := []string{bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else if _, err := os.Stat(dir); err == nil {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--chdir", "/workspace")
	for _, dir := range p.Prefixes {
		args = append(args, "--ro-bind", dir, dir)
	}
	for link, target := range p.Links {
		args = append(args, "--symlink", target, filepath.Clean(link))
	}
	return append(append(args, "--"), p.bare()...)
}

// gvisor measures runsc on its own, which shows the program the host's files, behind a kernel of its own.
func (b *bench) gvisor(ctx context.Context, found []*program) {
	runsc, err := installed("runsc")
	if err != nil {
		b.leaveOut("runsc", err)
		return
	}
	if v, err := output(ctx, clean(), runsc, "--version"); err == nil {
		b.report.Machine.Versions["runsc"] = versionIn(v)
	}
	args := []string{runsc, "--network=none", "--ignore-cgroups"}
	if os.Geteuid() != 0 {
		args = append(args, "--rootless")
	}
	for _, p := range found {
		line := append(append(append([]string{}, args...), "do"), p.bare()...)
		b.ways = append(b.ways, &way{language: p.language, name: "runsc do", what: "runsc do " + p.what, seldom: true, once: runs(b.Environ, line...)})
	}
}
