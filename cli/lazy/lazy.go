// Package lazy saves work: it compiles regular expressions when they are first needed, and remembers answers.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression when it is first needed: every start of the program would pay for it otherwise.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
