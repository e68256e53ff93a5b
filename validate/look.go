package validate

import (
	"fmt"
	"time"
)

// inspect looks at the tree of a script whose syntax was found good. Where that may take forever, it
// is left behind: the process ends with its answer.
func (j job) inspect(name string) findings {
	if j.treeTimeout == 0 {
		return j.tree(name)
	}
	found := make(chan findings, 1)
	go func() { found <- j.tree(name) }()
	select {
	case f := <-found:
		return f
	case <-time.After(j.treeTimeout):
		return findings{Unread: "it takes too much time to look at"}
	}
}

func (j job) tree(name string) (f findings) {
	defer func() {
		// Our parsers were made for trees that are right; what they trip over is not looked at, and said.
		if p := recover(); p != nil {
			f = findings{Unread: fmt.Sprintf("our parser failed: %.100v", p)}
		}
	}()
	if j.Language == Shell {
		return inspectShell(string(j.Source))
	}
	return j.inspectNode(name)
}
