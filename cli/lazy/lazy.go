// Package lazy defers work: it compiles regular expressions on first use, and caches answers.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression on first use: otherwise every start of the program would pay for it.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
