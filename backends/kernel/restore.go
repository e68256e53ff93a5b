package kernel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// RestoreCode returns code that sets the named variables to their values in others, and removes those that others
// lacks. variables and others are KEY=VALUE.
func RestoreCode(language string, variables, others []string) string {
	var lines []string
	for _, kv := range variables {
		name, _, _ := strings.Cut(kv, "=")
		value, has := "", false
		for _, other := range slices.Backward(others) { // the last of two counts
			if value, has = strings.CutPrefix(other, name+"="); has {
				break
			}
		}
		if code, is := environmentCode[language]; is && has {
			lines = append(lines, fmt.Sprintf(code.set, name, code.quote(value)))
		} else if is {
			lines = append(lines, fmt.Sprintf(code.remove, name))
		}
	}
	if language == "node" {
		lines = append(lines, "void 0;") // keeps the last value from becoming the session's _
	}
	return strings.Join(lines, "\n") + "\n"
}

// environmentCode sets a variable of the environment, or removes it. A name has letters, digits and underscores only.
var environmentCode = map[string]struct {
	set, remove string
	quote       func(string) string
}{
	"python": {"__import__('os').environ['%s'] = %s", "__import__('os').environ.pop('%s', None) and None", strconv.QuoteToASCII},
	"node":   {"process.env.%s = %s;", "delete process.env.%s;", quoteJSON},
	"shell":  {"export %s='%s'", "unset -v %s", strings.NewReplacer("'", `'\''`).Replace},
	"r":      {"invisible(Sys.setenv(%s = %s))", "invisible(Sys.unsetenv('%s'))", rString},
}

func quoteJSON(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}
