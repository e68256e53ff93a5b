package validate

import (
	"slices"
	"strings"
)

// jsSpan is a range of tokens; it is empty for an expression that is not there.
type jsSpan struct{ from, to int }

// jsName is a name that is bound in a block: the brace that begins it, or -1 for the program.
type jsName struct {
	name  string
	block int
}

// jsValue is a value of a name: a path, an expression or a member of it, or neither if the value can't be known.
type jsValue struct {
	path string
	expr jsSpan
	key  string
}

// jsProgram is a script with the values of its names. The order of statements does not count. esbuild gives a name that
// hides another name, or a global one, a name of its own.
type jsProgram struct {
	tokens  []jsToken
	blocks  []int // the block of each token; parameters are in that of their function
	names   map[jsName][]jsValue
	guarded map[string]bool // names that typeof looks at
	params  map[int]bool    // brackets of parameters
	classes map[int]bool    // braces of classes
	endless []jsSpan        // bodies of loops that do not end

	steps, depth int
	memo         map[jsSpan][]string
}

func programOf(source string) *jsProgram {
	p := &jsProgram{tokens: tokensJS(source), names: map[jsName][]jsValue{}, guarded: map[string]bool{},
		params: map[int]bool{}, classes: map[int]bool{}, memo: map[jsSpan][]string{}}
	open := []int{-1}
	for i, t := range p.tokens {
		p.blocks = append(p.blocks, open[len(open)-1])
		keyword := p.controls(i)
		switch {
		case t.kind == 'w' && !p.is(i-1, ".", "?."):
			p.declaration(i)
		case p.is(i, "(") && p.is(t.pair+1, "{") && !p.classes[t.pair+1] && (keyword == "" || keyword == "catch"):
			p.bindings(p.inside(i), t.pair+1, jsValue{})
			p.params[i] = true
			open = append(open, t.pair+1)
		case p.is(i, "{"):
			open = append(open, i)
		case p.is(i, "}") && len(open) > 1, p.is(i, ")") && p.params[t.pair]:
			open = open[:len(open)-1]
		}
	}
	for i, t := range p.tokens {
		if t.kind == 'o' && assigns(t.text) {
			p.assignment(i)
		}
	}
	return p
}

// is reports whether a token is one of these operators or keywords.
func (p *jsProgram) is(i int, texts ...string) bool {
	return i >= 0 && i < len(p.tokens) && (p.tokens[i].kind == 'o' || p.tokens[i].kind == 'w') && slices.Contains(texts, p.tokens[i].text)
}

// word reports whether a token is a word.
func (p *jsProgram) word(i int) bool { return i < len(p.tokens) && p.tokens[i].kind == 'w' }

// after returns the index behind a token, or behind the bracket that closes it.
func (p *jsProgram) after(i int) int {
	if i < len(p.tokens) && p.tokens[i].pair > i {
		return p.tokens[i].pair + 1
	}
	return i + 1
}

// inside returns the tokens between brackets.
func (p *jsProgram) inside(open int) jsSpan { return jsSpan{open + 1, p.after(open) - 1} }

// find returns the first of these operators or keywords outside of brackets, or s.to.
func (p *jsProgram) find(s jsSpan, texts ...string) int {
	for i := s.from; i < s.to; i = p.after(i) {
		if p.is(i, texts...) && !p.is(i-1, ".", "?.") {
			return i
		}
	}
	return s.to
}

// split splits at operators outside of brackets.
func (p *jsProgram) split(s jsSpan, texts ...string) []jsSpan {
	var out []jsSpan
	for s.from < s.to {
		end := p.find(s, texts...)
		out = append(out, jsSpan{s.from, end})
		s.from = end + 1
	}
	return out
}

// controls returns the keyword of a statement before a parenthesis.
func (p *jsProgram) controls(open int) string {
	if p.is(open-1, "await") && p.is(open-2, "for") {
		return "for"
	}
	if p.is(open-1, jsControl...) && !p.is(open-2, ".", "?.") {
		return p.tokens[open-1].text
	}
	return ""
}

// declaration records the names that a keyword binds, and what else it says.
func (p *jsProgram) declaration(i int) {
	block := p.blocks[i]
	switch p.tokens[i].text {
	case "var", "let", "const":
		if p.word(i+1) || p.is(i+1, "{", "[") {
			names := jsSpan{i + 1, p.find(jsSpan{i + 1, len(p.tokens)}, ";", "of", "in", ")", "}")}
			p.bindings(names, block)
			if p.is(names.to, "of", "in") {
				p.bindings(names, block, jsValue{})
			}
		}
	case "function":
		if p.is(i+1, "*") {
			i++
		}
		if p.word(i + 1) {
			p.bindings(jsSpan{i + 1, i + 2}, block, jsValue{})
		}
	case "class":
		if p.word(i+1) && !p.is(i+1, "extends") {
			p.bindings(jsSpan{i + 1, i + 2}, block, jsValue{})
		}
		p.classes[p.classBody(i+1)] = true
	case "import":
		p.imported(i + 1)
	case "typeof":
		if p.word(i + 1) {
			p.guarded[p.tokens[i+1].text] = true
		}
	case "while", "for", "do":
		p.loop(i)
	}
}

// classBody returns the brace of a class: the first that belongs to no expression after extends.
func (p *jsProgram) classBody(i int) int {
	for ; i < len(p.tokens) && !p.is(i, "{", ";", ")", "}"); i = p.after(i) {
		if p.is(i, "extends") && (p.is(i+1, "{") || p.is(i+1, "function", "class")) {
			i = p.find(jsSpan{i + 1, len(p.tokens)}, "{")
		}
	}
	return i
}

// bindings binds the names of patterns in a block. Beside these values they have those that are assigned.
func (p *jsProgram) bindings(s jsSpan, block int, values ...jsValue) {
	for _, part := range p.split(s, ",") {
		p.pattern(part, "", func(name, _ string, _ bool) {
			p.names[jsName{name, block}] = append(p.names[jsName{name, block}], values...)
		})
	}
}

// pattern calls bind for each name of a pattern, with the path of the member that the name takes.
func (p *jsProgram) pattern(s jsSpan, key string, bind func(name, key string, known bool)) {
	s.to = p.find(s, "=")
	rest := p.is(s.from, "...")
	if rest {
		s.from++
	}
	switch {
	case s.from >= s.to:
	case s.to == s.from+1 && p.word(s.from):
		bind(p.tokens[s.from].text, key, !rest && key != "?")
	case p.is(s.from, "["):
		for _, part := range p.split(p.inside(s.from), ",") {
			p.pattern(part, "?", bind)
		}
	case p.is(s.from, "{"):
		for _, part := range p.split(p.inside(s.from), ",") {
			member, target := "?", part
			if colon := p.find(part, ":"); colon < part.to {
				target.from = colon + 1
			}
			if t := p.tokens[part.from]; (t.kind == 'w' || t.kind == 's') && key != "?" {
				member = strings.TrimPrefix(key+"."+t.text, ".")
			}
			p.pattern(target, member, bind)
		}
	}
}

// named returns what binds a name as it is meant at a token.
func (p *jsProgram) named(name string, at int) (n jsName, bound bool) {
	for n = (jsName{name, p.blocks[at]}); ; n.block = p.blocks[n.block] {
		if _, bound = p.names[n]; bound || n.block < 0 {
			return n, bound
		}
	}
}

// imported reads a, {b as c}, * as d from "x".
func (p *jsProgram) imported(i int) {
	end := i
	for end < len(p.tokens) && p.tokens[end].kind != 's' && !p.is(end, ";", "(", ".") {
		end = p.after(end)
	}
	if end == len(p.tokens) || p.tokens[end].kind != 's' {
		return
	}
	for module := moduleName(p.tokens[end].text); i < end; i++ {
		if !p.word(i) || !p.is(i+1, ",", "}", "from") {
			continue
		}
		name, member := jsName{p.tokens[i].text, -1}, ""
		switch brace := p.tokens[end-2]; { // before from
		case brace.text != "}" || i < brace.pair:
		case p.is(i-1, "as"):
			member = p.tokens[i-2].text
		default:
			member = name.name
		}
		p.names[name] = append(p.names[name], jsValue{path: jsMember(module, member)})
	}
}

// assigns reports whether an operator assigns.
func assigns(operator string) bool {
	return strings.HasSuffix(operator, "=") && !slices.Contains([]string{"==", "===", "!=", "!==", "<=", ">="}, operator)
}

// assignment adds the value at the right of an operator to the names at its left.
func (p *jsProgram) assignment(i int) {
	left := jsSpan{i - 1, i}
	if i > 0 && p.tokens[i-1].pair >= 0 {
		left.from = p.tokens[i-1].pair
	}
	if left.from < 0 || p.is(left.from-1, ".", "?.") || p.index(left.from) || p.field(left.from) {
		return
	}
	right := jsSpan{i + 1, p.find(jsSpan{i + 1, len(p.tokens)}, ",", ";", ")", "]", "}")}
	p.pattern(left, "", func(name, key string, known bool) {
		n, _ := p.named(name, i) // one that is bound nowhere is global
		value := jsValue{expr: right, key: key}
		if !known || !p.is(i, "=", "||=", "??=", "&&=") {
			value = jsValue{}
		}
		p.names[n] = append(p.names[n], value)
	})
}

// field reports whether a name is that of a class's field.
func (p *jsProgram) field(i int) bool {
	return p.is(i-1, "{", ";", "}", "static") && p.classes[p.blocks[i]]
}

// loop records a loop that has no end in its condition and none in its body.
func (p *jsProgram) loop(i int) {
	open, body := i+1, jsSpan{p.after(i + 1), 0}
	if p.is(i, "do") {
		body.from = i + 1
	}
	if body.to = p.after(p.find(jsSpan{body.from, len(p.tokens)}, ";", "}")); p.is(body.from, "{") {
		body.to = p.after(body.from)
	}
	if p.is(i, "do") {
		open = body.to + 1
	}
	test := p.inside(open)
	if p.is(i, "for") {
		parts := p.split(test, ";")
		if len(parts) < 2 { // for of, for in
			return
		}
		test = parts[1]
	}
	if !p.truth(test) && (!p.is(i, "for") || test.from < test.to) {
		return
	}
	for j := body.from; j < min(body.to, len(p.tokens)); j++ {
		if p.is(j, "break", "return", "await") && !p.is(j-1, ".") {
			return
		}
	}
	p.endless = append(p.endless, body)
}

// truth reports whether a condition is always true.
func (p *jsProgram) truth(s jsSpan) bool {
	return s.to == s.from+1 && s.to <= len(p.tokens) && (p.is(s.from, "true") || p.tokens[s.from].kind == 'n' && p.tokens[s.from].text != "0")
}
