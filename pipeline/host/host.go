// Package host decides which commands may run on the host, outside of any sandbox, and runs them.
//
// Its promises:
//   - A command is a list of words. There is no shell, and shell syntax is refused.
//   - It runs if the operator's configuration or an approval has its exact words, or a pattern in which a star matches
//     a word that is not an option: see Pattern. A person has read exactly that rule. Commands that the operator blocks
//     can't be approved.
//   - The program is a file that only root and the server's own user can change, found in directories that no agent
//     chooses, and checked under each of its names.
//   - It gets a small environment of ours, no terminal, limited time and output, and leaves no process. A cgroup limits
//     the memory, processes and CPU of it and its descendants if possible, else sampling does.
//
// A limit: a command has all rights of the server's user on this machine. Allowing it means trusting it with that, with
// its inputs, and with all that its words imply: "make" runs the commands in a file that somebody may write meanwhile.
// The words bound an agent's requests; the kernel does not.
//
// Files: exec is the effect, decide says whether a command may run, pattern matches words, star lists the programs that
// may have no star, program finds and checks the file, run starts it, and cage limits it; read, write, list and copy
// are the effects on files.
package host

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// defaultPath are the directories that are searched for programs, in this order.
var defaultPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Refusal is the reason why a command or a pattern is refused, and a remedy.
type Refusal struct {
	Reason string
	Remedy remedy.Text
	Ask    bool // a person could allow it
}

func (r *Refusal) Error() string { return r.Reason }

func refuse(do any, format string, a ...any) error {
	return &Refusal{Reason: fmt.Sprintf(format, a...), Remedy: remedy.Text{do}}
}

// Rules are the operator's decisions. The zero value allows nothing.
type Rules struct {
	Allowed []string // patterns, and Safe for the safe list
	Blocked []string // patterns that can't be approved
	Path    []string // absolute directories to search for programs; nil is defaultPath
	Read    []string // directories that agents may read and commands may run in; or files
	Write   []string // likewise, writable too: programs from there are refused
}

// Policy is the parsed form of Rules. It may be used concurrently.
type Policy struct {
	allowed, blocked []Pattern
	safe             bool
	path             []string // nil is defaultPath
	roots            []files.Root
}

// NewPolicy parses rules. A pattern that could never match is an error.
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

// Roots returns the readable and writable directories. Commands may run below both.
func (p *Policy) Roots() []files.Root { return p.roots }

// With returns a policy with additional roots: programs below writable ones are refused.
func (p *Policy) With(roots []files.Root) *Policy {
	more := *p
	more.roots = slices.Concat(p.roots, roots)
	return &more
}

// Allowed returns the patterns of the configuration.
func (p *Policy) Allowed() []Pattern { return p.allowed }

// Harmless returns the patterns of the safe list, if the configuration allows it.
func (p *Policy) Harmless() []Pattern {
	if !p.safe {
		return nil
	}
	return safeCommands()
}

// Blocked returns the patterns that can't be approved.
func (p *Policy) Blocked() []Pattern { return p.blocked }

// Directory returns the working directory of a command: dir with its links resolved, if it is below an allowed
// directory; for "" the first allowed directory, or "/" without one.
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

// isDirectoryAllowed reports whether agents may access the directory of a real path.
func (p *Policy) isDirectoryAllowed(path string) bool {
	return slices.ContainsFunc(p.roots, func(r files.Root) bool { return within(path, r.Path) })
}

// within reports whether a real path is a directory or below it. A missing directory contains nothing.
func within(path, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && paths.Within(path, real)
}
