package validate

import "fmt"

// look looks at the tree of a script whose syntax was found good.
func (j job) look(name string) (f findings) {
	defer func() {
		// Our parsers were made for trees that are right; what they trip over is not looked at, and said.
		if p := recover(); p != nil {
			f = findings{Unread: fmt.Sprintf("our parser failed: %.100v", p)}
		}
	}()
	if j.Language == Shell {
		return lookShell(string(j.Source))
	}
	return j.lookNode(name)
}
