package kernel

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Restoring returns code of a language that gives the variables of some KEY=VALUE the values that others have for them, and takes away those
// that these have not.
func Restoring(language string, variables, others []string) string {
	var lines []string
	for _, kv := range variables {
		name, _, _ := strings.Cut(kv, "=")
		value, has := "", false
		for _, other := range slices.Backward(others) { // of two, the last counts
			if value, has = strings.CutPrefix(other, name+"="); has {
				break
			}
		}
		if has {
			lines = append(lines, setting(language, name, value))
		} else {
			lines = append(lines, removing(language, name))
		}
	}
	if language == "node" {
		lines = append(lines, "void 0;") // or the last value would be the session's _
	}
	return strings.Join(lines, "\n") + "\n"
}

// setting returns code that sets a variable of the environment. A name has letters, digits and underscores only.
func setting(language, name, value string) string {
	switch language {
	case "python":
		return "__import__('os').environ['" + name + "'] = " + strconv.QuoteToASCII(value)
	case "node":
		text, _ := json.Marshal(value)
		return "process.env." + name + " = " + string(text) + ";"
	case "r":
		return "invisible(Sys.setenv(" + name + " = " + rString(value) + "))"
	}
	return "export " + name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

func removing(language, name string) string {
	switch language {
	case "python":
		return "__import__('os').environ.pop('" + name + "', None) and None"
	case "node":
		return "delete process.env." + name + ";"
	case "r":
		return "invisible(Sys.unsetenv('" + name + "'))"
	}
	return "unset -v " + name
}
