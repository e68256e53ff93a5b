package validate

import (
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// pythonMissing and nodeMissing match an interpreter's error for a module that it has not found. The prefix is that of
// exception groups.
var (
	pythonMissing = lazy.Regexp(`^[ |]*ModuleNotFoundError: No module named '([-\w.@/]{1,200})'`)
	nodeMissing   = lazy.Regexp(`^(?:Uncaught )?Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find (?:module|package) '([-\w.@/:~]{1,200})'`)
)

// pythonAgain is the line between an exception and another exception that was raised while the first was handled.
const pythonAgain = "During handling of the above exception"

// MissingModule returns the module that a program's stderr names as missing. The program may print anything, so the
// answer is good for a hint only.
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
			module = "" // what follows is what ended it
		}
	}
	return module, module != ""
}
