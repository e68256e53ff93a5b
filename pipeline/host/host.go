// Package host decides which commands may run on the host, outside of any sandbox, and runs them.
//
// What holds:
//   - A command is words. There is no shell, and what a shell would make of a line is refused, not guessed.
//   - It runs if the operator's configuration or an approval has its exact words, or a pattern in which a star stands for a word that
//     is no option: see Pattern. A person has read exactly that rule. What the operator blocks stays blocked.
//   - The program is a file that only root and the server's own user can change, found in directories that no agent
//     chooses, and looked at under each name that it has.
//   - It gets a small environment of ours, no terminal, its time and room for its output, and leaves no process. It and
//     all that it starts have so much memory, processes and CPU, kept by a cgroup where one can be had, else by looking.
//
// What does not: a command is the server's own user on this machine. Whoever allows one trusts it with that, with what
// it reads, and with all that its words say: "make" runs what a file says that somebody may write meanwhile. Words
// bound what an agent can ask for, the kernel does not.
package host

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// defaultPath are the directories in which programs are looked for, the first one first.
var defaultPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Refusal says why a command or a pattern is refused, and what to do about it.
type Refusal struct {
	Reason string
	Remedy remedy.Text
	Ask    bool // nothing forbids it: a person could allow it
}

func (r *Refusal) Error() string { return r.Reason }

func refuse(do any, format string, a ...any) error {
	return &Refusal{Reason: fmt.Sprintf(format, a...), Remedy: remedy.Text{do}}
}

// Rules are the operator's decisions. The zero value allows nothing.
type Rules struct {
	Allowed []string // patterns, and Safe for those of the safe list
	Blocked []string // patterns that nobody may allow
	Path    []string // absolute directories that programs are looked for in; nil is defaultPath
	Read    []string // directories that agents may read, and below which commands may run; or files
	Write   []string // likewise, that agents may write, too: no program may come from there
}

// Policy is Rules, understood. It may be used concurrently.
type Policy struct {
	allowed, blocked []Pattern
	safe             bool
	path             []string // nil is defaultPath
	roots            []files.Root
}

// NewPolicy understands rules. A pattern that could never match anything is an error.
func NewPolicy(rules Rules) (*Policy, error) {
	p := &Policy{path: rules.Path}
	for _, text := range rules.Blocked {
		one, err := ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("blocked: %w", err)
		}
		p.blocked = append(p.blocked, one)
	}
	for _, text := range rules.Allowed {
		if text == Safe {
			p.safe = true
			continue
		}
		one, err := ParsePattern(text)
		if err == nil {
			err = p.checkConfigured(one)
		}
		if err != nil {
			return nil, fmt.Errorf("allowed: %w", err)
		}
		p.allowed = append(p.allowed, one)
	}
	for _, dir := range slices.Concat(rules.Path, rules.Read, rules.Write) {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("directory %q is not absolute", dir)
		}
	}
	for i, dir := range slices.Concat(rules.Read, rules.Write) {
		p.roots = append(p.roots, files.Root{Path: filepath.Clean(dir), Write: i >= len(rules.Read)})
	}
	return p, nil
}

// Roots are the directories that may be read, and those that may be written, too. Commands may run below both.
func (p *Policy) Roots() []files.Root { return p.roots }

// With returns a policy for somebody who may reach more: no program may come from where they write.
func (p *Policy) With(roots []files.Root) *Policy {
	more := *p
	more.roots = slices.Concat(p.roots, roots)
	return &more
}

// Allowed are the patterns of the configuration.
func (p *Policy) Allowed() []Pattern { return p.allowed }

// Harmless are the patterns of the safe list, if the configuration allows it.
func (p *Policy) Harmless() []Pattern {
	if !p.safe {
		return nil
	}
	return safeCommands()
}

// Blocked are the patterns that nobody may allow.
func (p *Policy) Blocked() []Pattern { return p.blocked }

// Directory returns where a command is to run: dir, if it is below a directory that is allowed, with its links
// followed; for "" the first such directory, or "/" where none is.
func (p *Policy) Directory(dir string) (string, error) {
	if dir == "" {
		if len(p.roots) == 0 {
			return "/", nil
		}
		dir = p.roots[0].Path
	}
	if !filepath.IsAbs(dir) {
		return "", refuse(remedy.AllowedDirectory, "the directory %q is not absolute", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", refuse(remedy.AllowedDirectory, "the directory can't be used: %v", err)
	}
	if real == "/" && len(p.roots) == 0 || p.isDirectoryAllowed(real) {
		return real, nil
	}
	return "", refuse(remedy.AllowedDirectory, "the directory %q is not below a directory that is allowed", dir)
}

// isDirectoryAllowed reports whether a real path is in a directory that agents may reach.
func (p *Policy) isDirectoryAllowed(path string) bool {
	return slices.ContainsFunc(p.roots, func(r files.Root) bool { return within(path, r.Path) })
}

// within reports whether a real path is a directory, or below it. What is not there holds nothing.
func within(path, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && paths.Within(path, real)
}
