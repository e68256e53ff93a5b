package kernel

import (
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// ScriptDriver returns the Python driver for a program that runs once. It is stored under the program's file name,
// and the program under name beside it, which the driver moves back. After the program, that file contains the
// displayed values: see ReadDisplays.
func ScriptDriver(name string) []byte {
	return []byte(scriptDriver() + ", 'NAME': " + pythonText(name) + "})\n")
}

// scriptDriver is the part of the driver that all programs share. Rarely used parts are source text that is
// compiled on demand.
var scriptDriver = sync.OnceValue(func() string {
	return "exec(compile(" + pythonText(pythonFile("units"), pythonFile("script")) +
		", '<driver>', 'exec'), {'__builtins__': dict(vars(__builtins__))" +
		", 'MODULES': " + pythonText(pythonFile("modules")) +
		", 'LATE': " + pythonText(pythonFile("late"), pythonFile("json"), pythonFile("plain"), pythonFile("show")) +
		", 'NOTEBOOK': " + pythonText(notebook.Python())
})

// pythonText returns the joined texts as a Python string literal.
func pythonText(texts ...string) string { return strconv.QuoteToASCII(strings.Join(texts, "\n")) }

// statement and assignment match statements without a value in the result of outline; showy matches words of code
// that may display something, or that is not plain Python.
var (
	statement  = lazy.Regexp(`^(?:import|from|return|raise|pass|del|assert|if|for|while|def|class|with|else|elif|try|except|finally|async|global|break|continue)\b|^@|^print\(\)$`)
	assignment = lazy.Regexp(`(?:^|[^=!<>:])=(?:[^=]|$)`)
	showy      = lazy.Regexp(`plot|pylab|seaborn|figure|show|display|(?m:^[ \t]*[!%])|=[ \t]*[!%]`)
)

// MayDisplay reports whether Python code may display something: the value of its last expression, figures, notebook
// syntax. Otherwise ScriptDriver would only cost time.
func MayDisplay(code []byte) bool {
	last, sure := outline(code)
	valueless := strings.TrimLeft(last, " \t") != last || statement().MatchString(last) ||
		assignment().MatchString(last) && !strings.Contains(last, "lambda")
	return !sure || !valueless || strings.Contains(last, ";") || showy().Match(code)
}

// outline returns the last statement of Python code, without the contents of brackets, strings and comments. sure
// is false if the code ends within one of these.
func outline(code []byte) (last string, sure bool) {
	var b strings.Builder
	depth, quote := 0, ""
	rest := strings.ReplaceAll(string(code), "\r\n", "\n") + "\n"
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			i++
		case quote != "":
			if strings.HasPrefix(rest[i:], quote) {
				i += len(quote) - 1
				quote = ""
			} else if c == '\n' && len(quote) == 1 {
				return "", false
			}
		case c == '"' || c == '\'':
			if quote = rest[i : i+1]; strings.HasPrefix(rest[i:], strings.Repeat(quote, 3)) {
				quote = rest[i : i+3]
			}
			if depth == 0 {
				b.WriteByte(c)
			}
			i += len(quote) - 1
		case c == '#':
			i += strings.IndexByte(rest[i:], '\n') - 1
		case strings.IndexByte("([{", c) >= 0:
			if depth++; depth == 1 {
				b.WriteByte(c)
			}
		case strings.IndexByte(")]}", c) >= 0:
			if depth--; depth == 0 {
				b.WriteByte(c)
			}
		case depth != 0:
		case c != '\n':
			b.WriteByte(c)
		default:
			if strings.TrimSpace(b.String()) != "" {
				last = strings.TrimRight(b.String(), " \t\f")
			}
			b.Reset()
		}
	}
	return last, depth == 0 && quote == ""
}

// ReadDisplays reads at most limit bytes of a program's displayed values, up to the first invalid frame.
func ReadDisplays(r io.Reader, limit int64, display func(Bundle)) (value Bundle) {
	r = io.LimitReader(r, limit)
	for {
		a, err := readFrame(r, jsonCodec{}, func() error { return nil })
		switch {
		case err != nil:
			return value
		case a.Op == "display" && len(a.Data) > 0:
			a.Data.dropLongForms()
			display(a.Data)
		case a.Op == "done":
			a.Value.dropLongForms()
			value = a.Value
		}
	}
}
