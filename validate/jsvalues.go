package validate

import (
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// jsDeepest is how many levels of an expression are followed.
const jsDeepest = 40

// exhausted reports whether too much was followed already.
func (p *jsProgram) exhausted() bool { return p.steps > 300_000+20*len(p.tokens) }

// jsCall is a call, or a new with arguments.
type jsCall struct {
	start          int // the first token of what is called
	callee, object []string
	args           []jsSpan
}

// argument returns the tokens of an argument, none if it is not known which it is.
func (p *jsProgram) argument(args []jsSpan, i int) jsSpan {
	if i >= len(args) || slices.ContainsFunc(args[:i+1], func(s jsSpan) bool { return p.is(s.from, "...") }) {
		return jsSpan{}
	}
	return args[i]
}

// index reports whether a bracket follows the value that it takes a member of.
func (p *jsProgram) index(i int) bool { return p.is(i, "[") && p.tokens[i].operand }

// begins reports whether an expression with members and calls may begin at a token.
func (p *jsProgram) begins(i int) bool {
	switch t := p.tokens[i]; {
	case t.kind == 's':
		return true
	case t.kind == 'w':
		return !p.is(i-1, ".", "?.") && !p.is(i, jsOperand...)
	case p.is(i, "("):
		return !p.params[i] && p.controls(i) == "" && !t.operand
	case p.is(i, "["):
		return !p.index(i)
	}
	return p.is(i, "{") && p.is(p.after(i), ".")
}

// jsChain is an expression of members and calls: a.b("c")[d].
type jsChain struct {
	end    int // the index behind its last token
	paths  []string
	shared bool // it is a member of a prototype that other code shares
}

// chain reads the expression that begins at a token, and hands on its calls.
func (p *jsProgram) chain(start int, call func(jsCall)) jsChain {
	i := p.after(start)
	c := jsChain{paths: p.primary(start)}
	var object []string // of the last member
	if p.is(start, "function") || p.is(start, "async") && p.is(start+1, "function") {
		i = p.after(p.find(jsSpan{start, len(p.tokens)}, "{", ";", ")"))
		c.paths = []string{"function"}
	}
	for ; i < len(p.tokens); p.steps++ {
		var key string
		member := false
		if p.is(i, "?.") && p.is(i+1, "(", "[") {
			i++
		}
		switch {
		case p.is(i, ".", "?.") && p.word(i+1):
			key, member = p.tokens[i+1].text, true
			i += 2
		case p.index(i):
			key, member = p.text(p.inside(i))
			if !member {
				c.paths = nil
			}
			i = p.after(i)
		case p.is(i, "(") && !p.params[i] && p.tokens[i].operand:
			found := jsCall{start, c.paths, object, p.split(p.inside(i), ",")}
			if call != nil {
				call(found)
			}
			c.paths = p.called(found)
			i = p.after(i)
			continue
		default:
			c.end = i
			return c
		}
		if member {
			c.shared = c.shared || key == "__proto__" || slices.ContainsFunc(c.paths, sharedPrototype)
			object, c.paths = c.paths, members(c.paths, key)
		}
	}
	c.end = i
	return c
}

// primary returns the paths of a word, a string, or what stands in brackets.
func (p *jsProgram) primary(i int) []string {
	switch t := p.tokens[i]; {
	case t.kind == 's', t.kind == 'n':
		return []string{textPath + t.text}
	case t.kind == 'w':
		return p.valuesOf(t.text, i)
	case p.is(i, "("):
		return p.paths(p.inside(i))
	case p.is(i, "["):
		return []string{"[]"}
	}
	return []string{"{}"}
}

func (p *jsProgram) valuesOf(name string, at int) []string {
	n, bound := p.named(name, at)
	if !bound {
		return []string{name}
	}
	var out []string
	for _, v := range p.names[n][:min(len(p.names[n]), 50)] {
		found := p.paths(v.expr)
		if v.path != "" {
			found = []string{v.path}
		}
		if v.key != "" {
			found = members(found, v.key)
		}
		out = append(out, found...)
	}
	return out
}

// textPath begins the path of text, with unknownText for its unknown parts, and of numbers.
const textPath = "\""

// paths returns the paths of the functions and objects that an expression may be: "child_process.exec", "eval". A call
// adds "()".
func (p *jsProgram) paths(s jsSpan) []string {
	p.steps++
	if s.from >= s.to || p.depth > jsDeepest || p.exhausted() {
		return nil
	}
	if found, known := p.memo[s]; known {
		return found
	}
	p.memo[s] = nil // while it is looked for: a name may be made of itself
	p.depth++
	found := p.expression(s)
	p.depth--
	slices.Sort(found)
	found = slices.Compact(found)
	p.memo[s] = found[:min(len(found), 8)]
	return p.memo[s]
}

func (p *jsProgram) expression(s jsSpan) []string {
	parts := p.split(s, ",")
	s = parts[len(parts)-1]
	for p.is(s.from, "await", "new") {
		s.from++
	}
	for i := s.from; i < s.to; i = p.after(i) {
		if p.tokens[i].kind == 'o' && assigns(p.tokens[i].text) {
			return p.paths(jsSpan{i + 1, s.to})
		}
	}
	if s.from >= s.to {
		return nil
	}
	if parts = p.split(s, "?", ":", "||", "&&", "??"); len(parts) > 1 {
		var out []string
		for _, part := range parts {
			out = append(out, p.paths(part)...)
		}
		return out
	}
	if parts = p.split(s, "+"); len(parts) > 1 {
		return p.joined("", parts, "")
	}
	if p.is(s.from, "-") && s.to == s.from+2 && p.tokens[s.from+1].kind == 'n' {
		return []string{textPath + "-" + p.tokens[s.from+1].text}
	}
	if c := p.chain(s.from, nil); c.end >= s.to {
		return slices.Clone(c.paths)
	}
	return nil
}

func members(paths []string, name string) []string {
	var out []string
	for _, path := range paths {
		if name == "constructor" && (path == "function" || strings.HasSuffix(path, ".constructor")) {
			out = append(out, "Function")
		} else {
			out = append(out, jsMember(path, name))
		}
	}
	return out
}

// moduleName returns a module's name as it is in rules.
func moduleName(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, "node:"), "/", ".")
}

// jsMember returns the path of a member. The default export of a module of Node is the module itself.
func jsMember(path, name string) string {
	switch {
	case strings.HasPrefix(path, textPath):
		return "''." + name
	case name == "" || name == "default":
		return path
	case path == "", globalObject().MatchString(path):
		return name
	}
	return path + "." + name
}

// globalObject matches the names of the global object.
var globalObject = lazy.Regexp(`^(globalThis|global|window|self|root)$`)

// called returns the paths of a call's result: a module for require, the function for bind and promisify, text where
// text is joined.
func (p *jsProgram) called(c jsCall) []string {
	var out []string
	first := p.argument(c.args, 0)
	for _, path := range c.callee {
		base, isBind := strings.CutSuffix(path, ".bind")
		switch {
		case requires(path):
			if name, known := p.text(first); known {
				out = append(out, moduleName(name))
			}
		case path == "''.concat": // `a${b}`
			text, _ := textOf(c.object)
			out = append(out, p.joined(text, c.args, "")...)
		case path == "path.join", path == "path.resolve", path == "path.posix.join":
			out = append(out, p.joined("", c.args, "/")...)
		case path == "module.createRequire":
			out = append(out, "require")
		case path == "util.promisify":
			out = append(out, p.paths(first)...)
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

// text returns the text of an expression, with unknownText for its unknown parts and "~" for the user's home, and
// whether it has no such parts.
func (p *jsProgram) text(s jsSpan) (text string, known bool) { return textOf(p.paths(s)) }

func textOf(paths []string) (text string, known bool) {
	if len(paths) != 1 {
		return unknownText, false
	}
	if paths[0] == "process.env.HOME" || paths[0] == "os.homedir()" {
		return "~", false
	}
	if text, known = strings.CutPrefix(paths[0], textPath); !known {
		return unknownText, false
	}
	return text, !strings.Contains(text, unknownText)
}

// joined returns the path of the texts of several expressions, behind another text.
func (p *jsProgram) joined(text string, parts []jsSpan, between string) []string {
	for i, part := range parts {
		if i > 0 {
			text += between
		}
		more, _ := p.text(part)
		if text += more; len(text) > maxWord {
			return nil
		}
	}
	return []string{textPath + text}
}

// only returns the expression that a name stands for, if there is no other.
func (p *jsProgram) only(s jsSpan) (jsSpan, bool) {
	if s.to == s.from+1 && p.word(s.from) {
		n, _ := p.named(p.tokens[s.from].text, s.from)
		if values := p.names[n]; len(values) == 1 && values[0].key == "" {
			return values[0].expr, values[0].expr.to > 0
		}
	}
	return s, false
}

// file returns the known part of a file's path; "" if its beginning is unknown.
func (p *jsProgram) file(s jsSpan) string {
	text, _ := p.text(s)
	if strings.HasPrefix(text, unknownText) {
		return ""
	}
	return text
}
