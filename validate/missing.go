package validate

import (
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// pythonMissing and nodeMissing match an interpreter's error for a missing module. The prefix is that of exception
// groups.
var (
	pythonMissing = lazy.Regexp(`^[ |]*ModuleNotFoundError: No module named '([-\w.@/]{1,200})'`)
	nodeMissing   = lazy.Regexp(`^(?:Uncaught )?Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find (?:module|package) '([-\w.@/:~]{1,200})'`)
)

// pythonAgain is the line before an exception that was raised while another was handled.
const pythonAgain = "During handling of the above exception"

// MissingModule returns the module that a program's stderr names as missing. The program may print anything, so the
// result is only a hint.
func MissingModule(stderr string) (module string, ok bool) {
	for line := range strings.SplitSeq(stderr, "\n") {
		line = strings.TrimRight(line, "\r")
		m := pythonMissing().FindStringSubmatch(line)
		if m == nil {
			m = nodeMissing().FindStringSubmatch(line)
		}
		switch {
		case m != nil && escapeInvisible(m[1]) == m[1]:
			module = m[1]
		case strings.HasPrefix(line, pythonAgain):
			module = "" // a later exception ended it
		}
	}
	return module, module != ""
}
