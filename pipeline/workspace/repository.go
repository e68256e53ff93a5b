package workspace

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// Repository returns the read-only mount that git needs in a worktree of "git worktree add": the repository, at the
// path in the worktree's file .git. The repository must name the worktree, too: otherwise a program that writes a .git
// could expose any directory of the host to the next program.
func Repository(worktree string) (m backends.Mount, found bool) {
	link, isLink := strings.CutPrefix(readLine(filepath.Join(worktree, ".git")), "gitdir: ")
	inside, own := link, link
	if !filepath.IsAbs(link) {
		inside, own = filepath.Join(backends.Workspace, link), filepath.Join(worktree, link)
	}
	own, err := filepath.EvalSymlinks(own)
	if !isLink || err != nil || filepath.Base(filepath.Dir(own)) != "worktrees" {
		return m, false
	}
	back := readLine(filepath.Join(own, "gitdir"))
	if !filepath.IsAbs(back) {
		back = filepath.Join(own, back)
	}
	here, err := os.Stat(worktree)
	named, err2 := os.Stat(filepath.Dir(back))
	m = backends.Mount{Host: filepath.Dir(filepath.Dir(own)), Inside: filepath.Dir(filepath.Dir(filepath.Clean(inside)))}
	return m, err == nil && err2 == nil && os.SameFile(here, named) && !paths.Within(m.Host, worktree)
}

// readLine returns the first line of a small file, or "" for a larger one.
func readLine(name string) string {
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() > 4<<10 {
		return ""
	}
	b, _ := os.ReadFile(name)
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
