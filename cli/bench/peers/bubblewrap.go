package peers

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/cli/bench"
)

func (f *found) bubblewrap(ctx context.Context) {
	bwrap := f.installed(bench.Bubblewrap, "bwrap")
	if bwrap == "" {
		return
	}
	f.version(ctx, bench.Bubblewrap, bwrap)
	for _, p := range f.programs {
		f.Variants = append(f.Variants, &bench.Variant{Language: p.Language, Name: bench.Bubblewrap, What: "bwrap --unshare-all ... " + p.What, Loaded: true,
			Once: bench.Runs(bench.Clean(), wrapped(bwrap, p)...)})
	}
}

// wrapped is a command line that gives a program about what our sandboxes give it, less Landlock, system call
// filter, limits, and the reading back.
func wrapped(bwrap string, p *bench.Program) []string {
	args := []string{bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else if _, err := os.Stat(dir); err == nil {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	inside := "/workspace/" + filepath.Base(p.Script)
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--ro-bind", p.Script, inside, "--chdir", "/workspace")
	for _, dir := range p.Prefixes {
		args = append(args, "--ro-bind", dir, dir)
	}
	for link, target := range p.Links {
		args = append(args, "--symlink", target, filepath.Clean(link))
	}
	return append(args, "--", p.Path, inside)
}

// gvisor measures runsc on its own, which shows the program the host's files, behind a kernel of its own.
func (f *found) gvisor(ctx context.Context) {
	runsc := f.installed("runsc", "runsc")
	if runsc == "" {
		return
	}
	f.version(ctx, "runsc", runsc)
	args := []string{runsc, "--network=none", "--ignore-cgroups"}
	if os.Geteuid() != 0 {
		args = append(args, "--rootless")
	}
	for _, p := range f.programs {
		line := append(append(args[:len(args):len(args)], "do"), p.Bare()...)
		f.Variants = append(f.Variants, &bench.Variant{Language: p.Language, Name: "runsc do", What: "runsc do " + p.What, Seldom: true, Once: bench.Runs(f.Environ, line...)})
	}
}
