package validate

import (
	"strings"
)

// What an interpreter says when it did not find a module. The prefix is that of exception groups.
var (
	pythonMissing = lazy(`^[ |]*ModuleNotFoundError: No module named '([-\w.@/]{1,200})'`)
	nodeMissing   = lazy(`^(?:Uncaught )?Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find (?:module|package) '([-\w.@/:~]{1,200})'`)
)

// pythonAgain stands between an exception and the one that was raised while it was handled.
const pythonAgain = "During handling of the above exception"

// MissingModule finds in a program's stderr the module for whose lack it ended.
// It believes what it reads, so the answer is good for a hint, and for nothing else.
func MissingModule(stderr string) (module string, ok bool) {
	for line := range strings.SplitSeq(stderr, "\n") {
		line = strings.TrimRight(line, "\r")
		m := pythonMissing().FindStringSubmatch(line)
		if m == nil {
			m = nodeMissing().FindStringSubmatch(line)
		}
		switch {
		case m != nil && visible(m[1]) == m[1]:
			module = m[1]
		case strings.HasPrefix(line, pythonAgain):
			module = "" // what follows is what ended it
		}
	}
	return module, module != ""
}
