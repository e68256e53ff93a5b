package validate

import (
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// process inspects a call of a function of child_process.
func (l *jsInspector) process(x ast.Expression, name string, args []ast.Expression, n jsNode) {
	command, known := l.command(argument(args, 0), n.scope)
	name = strings.TrimSuffix(name, "Sync")
	bomb := name == "fork" || name == "spawn" || name == "exec"
	switch name {
	case "exec":
		l.say("node-shell", x)
	case "spawn", "execFile", "fork":
		words, isList := l.words(argument(args, 1), n.scope)
		shell := slices.ContainsFunc(args[min(1, len(args)):], func(e ast.Expression) bool { return l.option(e, "shell", n.scope) })
		if shell || known && isShell(command[strings.LastIndexByte(command, '/')+1:]) && slices.ContainsFunc(words, func(w string) bool { return w == "-c" }) {
			l.say("node-shell", x)
		}
		if isList && known {
			if shell {
				command += " " + strings.Join(words, " ")
			} else {
				command = quoteWords(append([]string{command}, words...))
			}
		}
	default:
		return
	}
	if known {
		l.hits = append(l.hits, commandHits(command, l.offset(x))...)
	}
	if bomb && l.endless(n) && (name == "fork" || l.itself(args, n.scope)) {
		l.say("node-fork-bomb", x)
	}
}

// command returns a command, with unknownText for its unknown parts.
func (l *jsInspector) command(e ast.Expression, s *jsScope) (string, bool) {
	if text, known := l.text(e, s, 0); known {
		return text, true
	}
	if t, is := e.(*ast.TemplateLiteral); is && t.Tag == nil {
		text, _ := l.template(t, s, 0)
		return strings.ReplaceAll(text, unknownText, "_"), text != ""
	}
	if b, is := e.(*ast.BinaryExpression); is && b.Operator == token.PLUS {
		text := l.file(e, s, 0)
		return strings.ReplaceAll(text, unknownText, "_"), text != ""
	}
	return "", false
}

func (l *jsInspector) words(e ast.Expression, s *jsScope) ([]string, bool) {
	list, is := e.(*ast.ArrayLiteral)
	if !is {
		return nil, false
	}
	var words []string
	for _, v := range list.Value {
		words = append(words, strings.ReplaceAll(orUnknown(l.file(v, s, 0)), unknownText, "_"))
	}
	return words, true
}

func quoteWords(words []string) string {
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// option reports whether an object has a key whose value is not plainly false.
func (l *jsInspector) option(e ast.Expression, key string, s *jsScope) bool {
	if id, is := e.(*ast.Identifier); is {
		if b := s.lookup(string(id.Name)); len(b) == 1 && b[0].value != nil && b[0].key == "" {
			e = b[0].value
		}
	}
	o, is := e.(*ast.ObjectLiteral)
	if !is {
		return false
	}
	for _, p := range o.Value {
		k, is := p.(*ast.PropertyKeyed)
		if !is || k.Computed {
			continue
		}
		if name, is := k.Key.(*ast.StringLiteral); is && string(name.Value) == key {
			switch v := k.Value.(type) {
			case *ast.BooleanLiteral:
				return v.Value
			case *ast.StringLiteral:
				return v.Value != ""
			}
		}
	}
	return false
}

func (l *jsInspector) kill(x ast.Node, args []ast.Expression, s *jsScope) {
	pid, _ := l.text(argument(args, 0), s, 0)
	parent := slices.Contains(l.paths(argument(args, 0), s, 0), "process.ppid")
	if parent || pid == "-1" || pid == "0" || pid == "1" {
		l.say("node-kill-all", x)
	}
}

// endless reports whether a node is in a loop that does not end.
func (l *jsInspector) endless(n jsNode) bool {
	var test ast.Expression
	var body ast.Statement
	switch x := n.loop.(type) {
	case *ast.WhileStatement:
		test, body = x.Test, x.Body
	case *ast.DoWhileStatement:
		test, body = x.Test, x.Body
	case *ast.ForStatement:
		if test, body = x.Test, x.Body; test == nil {
			return !breaks(body)
		}
	default:
		return false
	}
	switch t := test.(type) {
	case *ast.BooleanLiteral:
		return t.Value && !breaks(body)
	case *ast.NumberLiteral:
		return t.Literal != "0" && !breaks(body)
	}
	return false
}

// breaks reports whether a loop's body may end the loop.
func breaks(body ast.Statement) bool {
	p := newProgram()
	jsWalk{p, p.top, nil}.node(body)
	return slices.ContainsFunc(p.nodes, func(n jsNode) bool {
		switch x := n.node.(type) {
		case *ast.BranchStatement:
			return x.Token == token.BREAK
		case *ast.ReturnStatement, *ast.AwaitExpression:
			return true
		}
		return false
	})
}

// itself reports whether the arguments start this program again.
func (l *jsInspector) itself(args []ast.Expression, s *jsScope) bool {
	p := newProgram()
	for _, a := range args {
		if a != nil {
			jsWalk{p, s, nil}.node(a)
		}
	}
	return slices.ContainsFunc(p.nodes, func(n jsNode) bool {
		e, is := n.node.(ast.Expression)
		if !is {
			return false
		}
		return slices.ContainsFunc(l.paths(e, n.scope, 0), func(path string) bool {
			return path == "__filename" || path == "process.argv" || path == "process.execPath"
		})
	})
}
