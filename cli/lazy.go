package cli

import (
	"regexp"
	"sync"
)

// lazy compiles an expression when it is first needed: every start of the program would pay for it otherwise.
func lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
