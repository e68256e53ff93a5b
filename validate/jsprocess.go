package validate

import (
	"slices"
	"strings"
)

// process inspects a call of a function of child_process.
func (l *jsInspector) process(c jsCall, name string) {
	command, _ := l.text(l.argument(c.args, 0))
	known := command != unknownText
	command = strings.ReplaceAll(command, unknownText, "_")
	name = strings.TrimSuffix(name, "Sync")
	switch name {
	case "exec":
		l.say("node-shell", c.start)
	case "spawn", "execFile", "fork":
		words, isList := l.list(l.argument(c.args, 1))
		shell := slices.ContainsFunc(c.args[min(1, len(c.args)):], func(s jsSpan) bool { return l.option(s, "shell") })
		if shell || known && isShell(command[strings.LastIndexByte(command, '/')+1:]) && slices.Contains(words, "-c") {
			l.say("node-shell", c.start)
		}
		if isList {
			command = quoteWords(append([]string{command}, words...))
		}
	default:
		return
	}
	if known {
		l.hits = append(l.hits, commandHits(command, l.tokens[c.start].at)...)
	}
	if name != "execFile" && l.forever(c.start) && (name == "fork" || l.itself(c.args)) {
		l.say("node-fork-bomb", c.start)
	}
}

// list returns the texts of an array.
func (l *jsInspector) list(s jsSpan) (words []string, is bool) {
	if !l.is(s.from, "[") || l.after(s.from) != s.to {
		return nil, false
	}
	for _, part := range l.split(l.inside(s.from), ",") {
		text, _ := l.text(part)
		words = append(words, strings.ReplaceAll(text, unknownText, "_"))
	}
	return words, true
}

func quoteWords(words []string) string {
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// option reports whether an object has a key whose value is true, or text.
func (l *jsInspector) option(s jsSpan, key string) bool {
	if expr, is := l.only(s); is {
		s = expr
	}
	if s.from >= s.to || !l.is(s.from, "{") {
		return false
	}
	for _, part := range l.split(l.inside(s.from), ",") {
		if part.to == part.from+3 && l.tokens[part.from].text == key && l.is(part.from+1, ":") {
			value := l.tokens[part.from+2]
			return value.kind == 'w' && value.text == "true" || value.kind == 's' && value.text != ""
		}
	}
	return false
}

// forever reports whether a token is in a loop that does not end.
func (l *jsInspector) forever(i int) bool {
	return slices.ContainsFunc(l.endless, func(body jsSpan) bool { return body.from <= i && i < body.to })
}

// itself reports whether the arguments start this program again.
func (l *jsInspector) itself(args []jsSpan) bool {
	for _, a := range args {
		for i := a.from; i < a.to; i++ {
			if l.begins(i) && slices.ContainsFunc(l.chain(i, nil).paths, func(path string) bool {
				return path == "__filename" || strings.HasPrefix(path, "process.argv") || path == "process.execPath"
			}) {
				return true
			}
		}
	}
	return false
}
