package pipeline

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// overlap refuses a run that could write, from inside, what we write or trust outside: the directory
// that its artifacts will be saved in, which it could replace by a link to any other, and the
// operator's own files, such as the audit log. It could not read those either: where a directory above them is
// shown, read-only, the backends cover them, and there is nothing to see in a mount of just them.
func (p *Pipeline) overlap(q Request) error {
	for _, m := range append(slices.Clone(q.Mounts), q.Workspace) {
		if m.Host == "" {
			continue
		}
		host := real(m.Host)
		if m.Write && q.Artifacts != "" && paths.Within(real(q.Artifacts), host) {
			return refuse(StageValidate, fmt.Sprintf("the program could replace the directory for artifacts, which lies in %s", m.Host),
				"name a directory outside of it with ", remedy.Artifacts, ", or show it read-only")
		}
		for _, ours := range p.cfg.Protected {
			if ours = real(ours); m.Write && paths.Within(ours, host) || paths.Within(host, ours) {
				return refuse(StageValidate, fmt.Sprintf("%s holds, or lies in, %s, which is sandboxmcp's own", m.Host, ours), "show another directory")
			}
		}
	}
	return nil
}

// shows reports whether a program is shown a directory above our own files.
func (p *Pipeline) shows(q Request) bool {
	return slices.ContainsFunc(append(slices.Clone(q.Mounts), q.Workspace), func(m backends.Mount) bool {
		return m.Host != "" && slices.ContainsFunc(p.cfg.Protected, func(ours string) bool { return paths.Within(real(ours), real(m.Host)) })
	})
}

// real follows the links of a path as far as it exists.
func real(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	rest := ""
	for dir := name; ; dir = filepath.Dir(dir) {
		if found, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(found, rest)
		}
		if dir == filepath.Dir(dir) {
			return name
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
