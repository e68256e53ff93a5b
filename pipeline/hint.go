package pipeline

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// hints say what to type after a run that did not go as its caller wanted, where the reason is
// that the sandbox shows and allows less than the host.
func hints(res Result, e ended) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	hit := append(slices.Clone(res.Hit), res.Limit)
	if slices.Contains(hit, "wall") {
		add("the program had %s seconds: give it more with --timeout SECONDS", plain(e.limits.Wall.Seconds()))
	}
	if slices.Contains(hit, "ram") {
		add("the program had %d MB of memory for all of its processes: give it more with --ram MB", e.limits.RAM>>20)
	}
	if slices.Contains(hit, "processes") {
		add("the program may have %d processes and threads: allow more with --processes N", e.limits.Processes)
	}
	if slices.Contains(hit, "disk") {
		add("/workspace, /tmp and /dev/shm hold %d MB together: allow more with --disk MB", e.limits.Disk>>20)
	}
	if res.Ended == backends.EndedOK {
		return list
	}
	for _, w := range e.code.Warnings {
		add("%s, line %d: %s", e.code.Name, w.Line, w.Text)
	}
	if module, ok := validate.MissingModule(res.Stderr); ok {
		add("%s", e.missing(module))
	}
	if noNetwork.MatchString(res.Stderr) {
		add("the sandbox has no network: what the program needs can come in with --input or --mount")
	}
	return list
}

// missing says what to do about a module that could not be imported.
func (e ended) missing(module string) string {
	if e.Beside != nil && e.Workspace.Host == "" {
		if path, ok := e.Beside(module); ok {
			return fmt.Sprintf("%s lies beside the script but only the script is shown: add --input %s, or --workspace %s for the whole folder",
				filepath.Base(path), path, filepath.Dir(path))
		}
	}
	return fmt.Sprintf("module %s is not installed for the %s on this host, whose packages are shown in the sandbox", module, e.code.Language)
}

// noNetwork matches how Python, Node, curl and git say that there is no way out.
var noNetwork = regexp.MustCompile(`Temporary failure in name resolution|Could not resolve host|` +
	`Network is unreachable|ENETUNREACH|EAI_AGAIN|ENOTFOUND|Name or service not known`)
