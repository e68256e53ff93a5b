package validate

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// function reports a function that calls itself in a pipe or in the background.
func (l *shellInspector) function(x *syntax.FuncDecl) {
	if x.Name == nil || x.Body == nil {
		return
	}
	if l.multiplies(x.Body, x.Name.Value) {
		l.say("shell-fork-bomb", x)
	}
}

// loop reports a script that starts itself in a loop.
func (l *shellInspector) loop(x *syntax.WhileClause) {
	if len(x.Cond) != 1 || len(x.Do) == 0 {
		return
	}
	if call, is := x.Cond[0].Cmd.(*syntax.CallExpr); is && len(call.Args) > 0 {
		if name := call.Args[0].Lit(); (name == "true" || name == ":") == x.Until || name != "true" && name != ":" && name != "false" {
			return
		}
		for _, s := range x.Do {
			if l.multiplies(s, "") {
				l.say("shell-fork-bomb", x)
				return
			}
		}
	}
}

// multiplies reports whether a statement starts the function of a name, or for "" the script itself, in the background
// or twice at a time.
func (l *shellInspector) multiplies(body *syntax.Stmt, name string) bool {
	found := false
	itself := func(s *syntax.Stmt) bool {
		call, is := s.Cmd.(*syntax.CallExpr)
		if !is || len(call.Args) == 0 {
			return false
		}
		if name == "" {
			return slices.ContainsFunc(call.Args, func(w *syntax.Word) bool {
				p, is := onlyPart(w).(*syntax.ParamExp)
				return is && p.Param != nil && p.Param.Value == "0"
			})
		}
		return call.Args[0].Lit() == name && len(call.Args) == 1
	}
	syntax.Walk(body, func(node syntax.Node) bool {
		switch x := node.(type) {
		case *syntax.Stmt:
			found = found || x.Background && itself(x)
		case *syntax.BinaryCmd:
			if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
				found = found || itself(x.X) || itself(x.Y)
			}
		}
		return !found
	})
	return found
}

// onlyPart returns the single part of a word, without double quotes around it; nil if it has several.
func onlyPart(w *syntax.Word) syntax.WordPart {
	if len(w.Parts) != 1 {
		return nil
	}
	if q, is := w.Parts[0].(*syntax.DblQuoted); is && len(q.Parts) == 1 {
		return q.Parts[0]
	}
	return w.Parts[0]
}
