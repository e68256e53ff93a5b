package validate

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// unknownText replaces a part of a word that is known only when the script runs.
const unknownText = "\ufffd"

// shellNames are the names that a script sets, so that words can be expanded as far as they are known before it runs.
// The order of commands does not count: a name that is set twice is unknown.
type shellNames struct {
	set       map[string][]*syntax.Word // a nil word is a value that can't be known
	functions map[string]bool
	depth     int
}

func namesOf(f syntax.Node) *shellNames {
	n := &shellNames{set: map[string][]*syntax.Word{}, functions: map[string]bool{}}
	syntax.Walk(f, func(node syntax.Node) bool {
		switch x := node.(type) {
		case *syntax.Assign:
			if x.Name != nil {
				value := x.Value
				if x.Append || x.Index != nil || x.Array != nil {
					value = nil
				}
				n.set[x.Name.Value] = append(n.set[x.Name.Value], value)
			}
		case *syntax.FuncDecl:
			if x.Name != nil {
				n.functions[x.Name.Value] = true
			}
		case *syntax.WordIter:
			n.set[x.Name.Value] = append(n.set[x.Name.Value], nil)
		case *syntax.CallExpr:
			n.reads(x)
		}
		return true
	})
	return n
}

// reads records the names that commands set by themselves.
func (n *shellNames) reads(c *syntax.CallExpr) {
	if len(c.Args) == 0 || !slices.Contains([]string{"read", "mapfile", "readarray", "printf", "getopts", "source", ".", "let", "eval"}, c.Args[0].Lit()) {
		return
	}
	for _, w := range c.Args[1:] {
		n.set[w.Lit()] = append(n.set[w.Lit()], nil)
	}
	if name := c.Args[0].Lit(); name == "source" || name == "." || name == "eval" {
		n.set[""] = append(n.set[""], nil) // any name may be set
	}
}

// text returns the expansion of a word, with unknownText for its unknown parts.
func (n *shellNames) text(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	return n.parts(w.Parts)
}

func (n *shellNames) parts(parts []syntax.WordPart) string {
	var b strings.Builder
	for i, p := range parts {
		switch x := p.(type) {
		case *syntax.Lit:
			value := strings.ReplaceAll(x.Value, "\\\n", "")
			if i == 0 && value == "~" || strings.HasPrefix(value, "~/") {
				b.WriteString(value)
				continue
			}
			b.WriteString(unescape(value))
		case *syntax.SglQuoted:
			b.WriteString(quoted(x))
		case *syntax.DblQuoted:
			b.WriteString(n.parts(x.Parts))
		case *syntax.ParamExp:
			b.WriteString(n.param(x))
		default:
			b.WriteString(unknownText)
		}
		if b.Len() > maxWord {
			break
		}
	}
	return b.String()
}

// maxWord is the longest word, in bytes, that is put together.
const maxWord = 16 << 10

func quoted(x *syntax.SglQuoted) string {
	if !x.Dollar {
		return x.Value
	}
	value, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(x.Value, `\'`, "'"), `"`, `\"`) + `"`)
	if err != nil {
		return x.Value
	}
	return value
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// maxDepth is how many names in the values of names are followed.
const maxDepth = 10

// param returns the value of $name: "" when nothing can have set it.
func (n *shellNames) param(x *syntax.ParamExp) string {
	if x.Param == nil || x.Excl || x.Length || x.Index != nil || x.Slice != nil || x.Repl != nil {
		return unknownText
	}
	name := x.Param.Value
	values, set := n.set[name]
	switch {
	case x.Exp != nil && (x.Exp.Op == syntax.DefaultUnset || x.Exp.Op == syntax.DefaultUnsetOrNull) && !set && !preset(name):
		return n.text(x.Exp.Word)
	case x.Exp != nil:
		return unknownText
	case set && len(values) == 1 && values[0] != nil && n.depth < maxDepth:
		n.depth++
		defer func() { n.depth-- }()
		return n.text(values[0])
	case name == "HOME" && !set:
		return "~"
	case set || preset(name) || len(n.set[""]) > 0:
		return unknownText
	}
	return ""
}

// preset reports whether a parameter may have a value that the script has not set: a special parameter, or a variable
// of the environment that scripts may count on.
func preset(name string) bool {
	if name == "" || name[0] < 'A' || name[0] > 'z' || name[0] > 'Z' && name[0] < 'a' {
		return true // $1, $@, $?, $_
	}
	return slices.Contains([]string{"PWD", "OLDPWD", "TMPDIR", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "RANDOM", "SECONDS",
		"LINENO", "HOSTNAME", "UID", "EUID", "PPID", "BASHPID", "BASH_SOURCE", "IFS", "TERM", "EDITOR", "REPLY", "OSTYPE", "CI"}, name)
}

// shellCommand is a simple command without the wrappers that only start it.
type shellCommand struct {
	program  string // without directories
	args     []string
	words    []*syntax.Word // of args
	wrappers []string       // what was taken off: sudo, env ...
}

// wrappers start the command that follows, after options; the value lists the options that take an argument.
var wrappers = map[string]string{
	"sudo": "-u -g -h -p -C -T -R -D --user --group", "doas": "-u -C", "env": "-u -C -S --unset --chdir", "command": "", "builtin": "",
	"exec": "-a", "nohup": "", "time": "-f -o", "nice": "-n", "ionice": "-c -n -p", "timeout": "-k -s --signal --kill-after",
	"xargs": "-I -n -P -L -d -a -s -E --max-args --max-procs", "busybox": "", "toybox": "", "stdbuf": "-i -o -e", "setsid": "",
	"unshare": "", "chrt": "", "flock": "", "pkexec": "",
}

// command returns the command of a call. ok is false for assignments, and for programs that are not known.
func (n *shellNames) command(c *syntax.CallExpr) (cmd shellCommand, ok bool) {
	var texts []string
	words := c.Args
	for _, w := range words {
		texts = append(texts, n.text(w))
	}
	// $cmd, unquoted, is split into words.
	if len(texts) > 0 && strings.ContainsAny(texts[0], " \t\n") && len(words[0].Parts) == 1 {
		if _, is := words[0].Parts[0].(*syntax.ParamExp); is {
			head := strings.Fields(texts[0])
			texts = append(head, texts[1:]...)
			words = append(slices.Repeat([]*syntax.Word{words[0]}, len(head)), words[1:]...)
		}
	}
	for len(texts) > 0 {
		program := path.Base(texts[0])
		options, wraps := wrappers[program]
		if texts[0] == "" || n.functions[texts[0]] || strings.Contains(program, unknownText) {
			return cmd, false
		}
		if !wraps {
			cmd.program, cmd.args, cmd.words = program, texts[1:], words[1:]
			return cmd, true
		}
		cmd.wrappers = append(cmd.wrappers, program)
		texts, words = texts[1:], words[1:]
		taking := strings.Fields(options)
		for len(texts) > 0 && (strings.HasPrefix(texts[0], "-") || program == "env" && strings.Contains(texts[0], "=")) {
			skip := 1
			if slices.Contains(taking, texts[0]) {
				skip = 2
			}
			texts, words = texts[min(skip, len(texts)):], words[min(skip, len(words)):]
		}
		if (program == "timeout" || program == "flock") && len(texts) > 1 {
			texts, words = texts[1:], words[1:]
		}
	}
	return cmd, len(cmd.wrappers) > 0
}

// flags returns the letters of short options, the long options, and the other arguments.
func (c shellCommand) flags() (short string, long, rest []string) {
	for i, a := range c.args {
		switch {
		case a == "--":
			return short, long, append(rest, c.args[i+1:]...)
		case strings.HasPrefix(a, "--"):
			long = append(long, a)
		case strings.HasPrefix(a, "-") && len(a) > 1:
			short += a[1:]
		default:
			rest = append(rest, a)
		}
	}
	return short, long, rest
}
