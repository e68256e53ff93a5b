package validate

import (
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

const (
	jsDeepest = 40     // levels of an expression that are followed
	jsSteps   = 300000 // of one program
)

// paths returns the paths of the functions and objects that an expression may be: "child_process.exec", "eval". A call
// adds "()".
func (p *jsProgram) paths(e ast.Expression, s *jsScope, depth int) []string {
	p.steps++
	if e == nil || depth > jsDeepest || p.steps > jsSteps {
		return nil
	}
	key := jsKey{e, s}
	if found, known := p.memo[key]; known {
		return found
	}
	p.memo[key] = nil // while it is looked for: a name may be made of itself
	found := p.find(e, s, depth+1)
	slices.Sort(found)
	found = slices.Compact(found)
	p.memo[key] = found[:min(len(found), 8)]
	return p.memo[key]
}

func (p *jsProgram) find(e ast.Expression, s *jsScope, depth int) []string {
	switch x := e.(type) {
	case *ast.Identifier:
		return p.name(string(x.Name), s, depth)
	case *ast.DotExpression:
		return p.members(x.Left, string(x.Identifier.Name), s, depth)
	case *ast.BracketExpression:
		if key, known := p.text(x.Member, s, depth); known {
			return p.members(x.Left, key, s, depth)
		}
	case *ast.CallExpression:
		return p.called(x, s, depth)
	case *ast.NewExpression:
		return suffixed(p.paths(x.Callee, s, depth), "()")
	case *ast.AwaitExpression:
		return p.paths(x.Argument, s, depth)
	case *ast.OptionalChain:
		return p.paths(x.Expression, s, depth)
	case *ast.Optional:
		return p.paths(x.Expression, s, depth)
	case *ast.SequenceExpression:
		return p.paths(x.Sequence[len(x.Sequence)-1], s, depth)
	case *ast.AssignExpression:
		return p.paths(x.Right, s, depth)
	case *ast.ConditionalExpression:
		return append(slices.Clone(p.paths(x.Consequent, s, depth)), p.paths(x.Alternate, s, depth)...)
	case *ast.BinaryExpression:
		if x.Operator == token.LOGICAL_OR || x.Operator == token.COALESCE || x.Operator == token.LOGICAL_AND {
			return append(slices.Clone(p.paths(x.Left, s, depth)), p.paths(x.Right, s, depth)...)
		}
	case *ast.FunctionLiteral, *ast.ArrowFunctionLiteral:
		return []string{"function"}
	case *ast.ArrayLiteral:
		return []string{"[]"}
	case *ast.ObjectLiteral:
		return []string{"{}"}
	case *ast.StringLiteral:
		return []string{"''"}
	case *ast.ThisExpression:
		return []string{"this"}
	}
	return nil
}

func (p *jsProgram) name(name string, s *jsScope, depth int) []string {
	bound := s.lookup(name)
	if bound == nil {
		if name == jsImport {
			return []string{"import"}
		}
		return []string{name}
	}
	var out []string
	for _, b := range bound[:min(len(bound), 50)] {
		switch {
		case b.path != "":
			out = append(out, b.path)
		case b.value != nil && b.key != "":
			out = append(out, p.members(b.value, b.key, b.scope, depth)...)
		case b.value != nil:
			out = append(out, p.paths(b.value, b.scope, depth)...)
		}
	}
	return out
}

func (p *jsProgram) members(e ast.Expression, name string, s *jsScope, depth int) []string {
	var out []string
	for _, path := range p.paths(e, s, depth) {
		switch {
		case name == "constructor" && (path == "function" || strings.HasSuffix(path, ".constructor")):
			out = append(out, "Function")
		default:
			out = append(out, jsMember(path, name))
		}
	}
	return out
}

func suffixed(paths []string, suffix string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, p+suffix)
	}
	return out
}

// called returns the paths of a call's result: a module for require, the function for bind and promisify.
func (p *jsProgram) called(x *ast.CallExpression, s *jsScope, depth int) []string {
	var out []string
	for _, path := range p.paths(x.Callee, s, depth) {
		var first ast.Expression
		if len(x.ArgumentList) > 0 {
			first = x.ArgumentList[0]
		}
		base, isBind := strings.CutSuffix(path, ".bind")
		switch {
		case requires(path):
			if name, known := p.text(first, s, depth); known {
				out = append(out, moduleName(name))
			}
		case path == "module.createRequire":
			out = append(out, "require")
		case path == "util.promisify":
			out = append(out, p.paths(first, s, depth)...)
		case isBind && !strings.HasSuffix(base, ".call") && !strings.HasSuffix(base, ".apply"):
			out = append(out, base)
		default:
			out = append(out, path+"()")
		}
	}
	return out
}

// requires reports whether a call of this path loads a module by name.
func requires(path string) bool {
	switch path {
	case "require", "module.require", "process.mainModule.require", "require.main.require", "import",
		"process.getBuiltinModule", "module.createRequire()":
		return true
	}
	return false
}

// text returns the text of an expression, if that is certain.
func (p *jsProgram) text(e ast.Expression, s *jsScope, depth int) (string, bool) {
	p.steps++
	if e == nil || depth > jsDeepest || p.steps > jsSteps {
		return "", false
	}
	switch x := e.(type) {
	case *ast.StringLiteral:
		return x.Value.String(), true
	case *ast.NumberLiteral:
		return x.Literal, true
	case *ast.UnaryExpression:
		if n, known := p.text(x.Operand, s, depth+1); known && x.Operator == token.MINUS {
			return "-" + n, true
		}
	case *ast.Identifier:
		if b := s.lookup(string(x.Name)); len(b) == 1 && b[0].value != nil && b[0].key == "" {
			return p.text(b[0].value, b[0].scope, depth+1)
		}
	case *ast.BinaryExpression:
		if x.Operator == token.PLUS {
			return p.sum(x, s, depth)
		}
	case *ast.TemplateLiteral:
		if x.Tag == nil {
			out, all := p.template(x, s, depth)
			return out, all
		}
	case *ast.CallExpression:
		return p.made(x, s, depth)
	}
	return "", false
}

// sum adds a + b + c ... in a loop: recursion would go as deep as the sum is long.
func (p *jsProgram) sum(x *ast.BinaryExpression, s *jsScope, depth int) (string, bool) {
	var parts []ast.Expression
	var e ast.Expression = x
	for {
		b, is := e.(*ast.BinaryExpression)
		if !is || b.Operator != token.PLUS {
			break
		}
		parts = append(parts, b.Right)
		e = b.Left
	}
	parts = append(parts, e)
	slices.Reverse(parts)
	var out strings.Builder
	for _, part := range parts {
		text, known := p.text(part, s, depth+1)
		if !known || out.Len()+len(text) > maxWord {
			return "", false
		}
		out.WriteString(text)
	}
	return out.String(), true
}

// template returns the text of a template, with unknownText for its unknown parts.
func (p *jsProgram) template(x *ast.TemplateLiteral, s *jsScope, depth int) (out string, all bool) {
	var b strings.Builder
	all = true
	for i, e := range x.Elements {
		b.WriteString(e.Parsed.String())
		if i < len(x.Expressions) {
			text, known := p.text(x.Expressions[i], s, depth+1)
			if all = all && known; !known {
				text = unknownText
			}
			b.WriteString(text)
		}
		if b.Len() > maxWord {
			return "", false
		}
	}
	return b.String(), all
}

// made evaluates ["a", "b"].join("") and String.fromCharCode(1, 2).
func (p *jsProgram) made(x *ast.CallExpression, s *jsScope, depth int) (string, bool) {
	dot, is := x.Callee.(*ast.DotExpression)
	if !is {
		return "", false
	}
	switch list, isList := dot.Left.(*ast.ArrayLiteral); {
	case isList && dot.Identifier.Name == "join" && len(x.ArgumentList) == 1:
		sep, known := p.text(x.ArgumentList[0], s, depth+1)
		var parts []string
		for _, e := range list.Value {
			part, is := p.text(e, s, depth+1)
			known = known && is
			parts = append(parts, part)
		}
		out := strings.Join(parts, sep)
		return out, known && len(out) <= maxWord
	case dot.Identifier.Name == "fromCharCode" && slices.Equal(p.paths(dot.Left, s, depth+1), []string{"String"}):
		var out []rune
		for _, e := range x.ArgumentList {
			n, is := e.(*ast.NumberLiteral)
			if !is {
				return "", false
			}
			code, is := n.Value.(int64)
			if !is || code < 0 || code > 0xffff {
				return "", false
			}
			out = append(out, rune(code))
		}
		return string(out), true
	}
	return "", false
}

// file returns the known part of a file's path, with "~" for the home; "" if the path is unknown.
func (p *jsProgram) file(e ast.Expression, s *jsScope, depth int) string {
	if text, known := p.text(e, s, depth); known {
		return text
	}
	p.steps++
	if e == nil || depth > jsDeepest || p.steps > jsSteps {
		return ""
	}
	switch x := e.(type) {
	case *ast.Identifier:
		if b := s.lookup(string(x.Name)); len(b) == 1 && b[0].value != nil && b[0].key == "" {
			return p.file(b[0].value, b[0].scope, depth+1)
		}
	case *ast.TemplateLiteral:
		out := ""
		for i, e := range x.Elements {
			out += e.Parsed.String()
			if i < len(x.Expressions) {
				part := p.file(x.Expressions[i], s, depth+1)
				if part == "" && out == "" {
					return ""
				}
				out += orUnknown(part)
			}
			if len(out) > maxWord {
				return ""
			}
		}
		return out
	case *ast.BinaryExpression:
		if left := p.file(x.Left, s, depth+1); left != "" && x.Operator == token.PLUS {
			return left + orUnknown(p.file(x.Right, s, depth+1))
		}
	case *ast.DotExpression:
		if slices.Contains(p.paths(x, s, depth), "process.env.HOME") {
			return "~"
		}
	case *ast.CallExpression:
		return p.joined(x, s, depth)
	}
	return ""
}

func (p *jsProgram) joined(x *ast.CallExpression, s *jsScope, depth int) string {
	for _, path := range p.paths(x.Callee, s, depth) {
		switch path {
		case "os.homedir":
			return "~"
		case "path.join", "path.resolve", "path.posix.join":
			out := ""
			for i, a := range x.ArgumentList {
				part := p.file(a, s, depth+1)
				if i == 0 {
					if out = part; out == "" {
						return ""
					}
					continue
				}
				out += "/" + orUnknown(part)
			}
			return out
		}
	}
	return ""
}

func orUnknown(s string) string {
	if s == "" {
		return unknownText
	}
	return s
}
