package validate

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// interpreters are programs that run text as code. The first seven are shells.
var interpreters = []string{"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "python", "python3", "python2", "perl", "ruby", "node", "php", "pwsh"}

func runsCode(program string) bool {
	return slices.Contains(interpreters, program) || strings.HasPrefix(program, "python3.")
}

func isShell(program string) bool {
	return slices.Contains(interpreters[:7], program)
}

// runs inspects sh -c and sh <(...).
func (l *shellInspector) runs(c shellCommand, x syntax.Node) {
	for i, w := range c.words {
		l.fed(w, x)
		option := i > 0 && strings.HasPrefix(c.args[i-1], "-") && strings.HasSuffix(c.args[i-1], "c")
		if option && isShell(c.program) {
			l.inspectWord(c.args[i], x)
		}
	}
}

// evaluates inspects eval and source.
func (l *shellInspector) evaluates(c shellCommand, x syntax.Node) {
	before := len(l.hits)
	for _, w := range c.words {
		l.fed(w, x)
	}
	if c.program != "eval" || len(l.hits) > before {
		return
	}
	text := strings.Join(c.args, " ")
	if strings.Contains(text, unknownText) {
		l.say("shell-eval", x)
	}
	l.inspectWord(text, x)
}

// inspectWord inspects a command in the text of a word.
func (l *shellInspector) inspectWord(text string, x syntax.Node) {
	if l.nested >= maxNested || len(text) > maxWord {
		return
	}
	f, _ := parseShell(text)
	for _, h := range shellHits(f, l.nested+1) {
		l.say(h.Rule, x)
	}
}

// fed reports downloads and decoders in a word that becomes code.
func (l *shellInspector) fed(w *syntax.Word, x syntax.Node) {
	syntax.Walk(w, func(node syntax.Node) bool {
		switch p := node.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			l.sources(p, x)
			return false
		case *syntax.ParamExp:
			if p.Param == nil {
				return false
			}
			if values := l.names.set[p.Param.Value]; len(values) == 1 && values[0] != nil && l.names.depth < maxDepth {
				l.names.depth++
				l.fed(values[0], x)
				l.names.depth--
			}
			return false
		}
		return true
	})
}

// sources reports downloads and decoders among commands whose output becomes code.
func (l *shellInspector) sources(from, x syntax.Node) {
	syntax.Walk(from, func(node syntax.Node) bool {
		if l.steps++; l.steps > maxSteps {
			return false
		}
		call, is := node.(*syntax.CallExpr)
		if !is {
			return true
		}
		c, ok := l.names.command(call)
		if !ok {
			return true
		}
		if rule := c.rule(sourceRules()); rule != "" {
			l.say(rule, x)
		}
		return true
	})
}

// maxSteps bounds the inspection of interpreters' inputs: a pipe of n of them takes n*n.
const maxSteps = 100_000

// reader returns the command of a statement if it is an interpreter that reads its code from standard input.
func (l *shellInspector) reader(s *syntax.Stmt) (c shellCommand, is bool) {
	if call, isCall := s.Cmd.(*syntax.CallExpr); isCall {
		c, is = l.names.command(call)
	}
	return c, is && runsCode(c.program) && readsCode(c)
}

// readsCode reports whether an interpreter has neither a file nor a text to run.
func readsCode(c shellCommand) bool {
	for i, a := range c.args {
		switch {
		case a == "-" || a == "/dev/stdin" || strings.HasPrefix(a, "-s"):
			return true
		case a == "-c" || a == "-e" || a == "-m" || a == "--eval":
			return false
		case !strings.HasPrefix(a, "-") && (i == 0 || c.args[i-1] != "-o"):
			return false
		}
	}
	return true
}

// standardInput inspects code in a here-document or a here-string (<< or <<<) of a shell.
func (l *shellInspector) standardInput(r *syntax.Redirect, s *syntax.Stmt) {
	text := r.Hdoc
	if r.Op == syntax.WordHdoc {
		text = r.Word
	}
	if c, is := l.reader(s); is && isShell(c.program) && text != nil {
		l.fed(text, s)
		l.inspectWord(l.names.text(text), s)
	}
}
