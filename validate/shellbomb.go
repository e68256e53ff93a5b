package validate

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// function reports a function that calls itself in a pipe or in the background.
func (l *shellInspector) function(x *syntax.FuncDecl) {
	if x.Name != nil && x.Body != nil && multiplies(x.Body, func(c *syntax.CallExpr) bool { return len(c.Args) == 1 && c.Args[0].Lit() == x.Name.Value }) {
		l.say("shell-fork-bomb", x)
	}
}

// loop reports a script that starts itself in a loop without end.
func (l *shellInspector) loop(x *syntax.WhileClause) {
	endless := []string{"true", ":"}
	if x.Until {
		endless = []string{"false"}
	}
	if len(x.Cond) != 1 {
		return
	}
	if test, is := x.Cond[0].Cmd.(*syntax.CallExpr); !is || len(test.Args) == 0 || !slices.Contains(endless, test.Args[0].Lit()) {
		return
	}
	itself := func(c *syntax.CallExpr) bool { return slices.ContainsFunc(c.Args, namesScript) }
	if slices.ContainsFunc(x.Do, func(s *syntax.Stmt) bool { return multiplies(s, itself) }) {
		l.say("shell-fork-bomb", x)
	}
}

// multiplies reports whether a statement makes such a call in the background or in a pipe.
func multiplies(body *syntax.Stmt, is func(*syntax.CallExpr) bool) bool {
	found := false
	beside := func(statements ...*syntax.Stmt) {
		for _, s := range statements {
			if call, isCall := s.Cmd.(*syntax.CallExpr); isCall && len(call.Args) > 0 {
				found = found || is(call)
			}
		}
	}
	syntax.Walk(body, func(node syntax.Node) bool {
		switch x := node.(type) {
		case *syntax.Stmt:
			if x.Background {
				beside(x)
			}
		case *syntax.BinaryCmd:
			if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
				beside(x.X, x.Y)
			}
		}
		return !found
	})
	return found
}

// namesScript reports whether a word is $0 or "$0".
func namesScript(w *syntax.Word) bool {
	parts := w.Parts
	if len(parts) != 1 {
		return false
	}
	if q, is := parts[0].(*syntax.DblQuoted); is && len(q.Parts) == 1 {
		parts = q.Parts
	}
	p, is := parts[0].(*syntax.ParamExp)
	return is && p.Param != nil && p.Param.Value == "0"
}
