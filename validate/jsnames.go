package validate

import (
	"github.com/dop251/goja/ast"
)

// jsScope is a function or a block, with its bindings.
type jsScope struct {
	parent   *jsScope
	function bool
	bound    map[string][]jsBinding
}

// jsBinding is a value of a name: a path, an expression, or neither if the value can't be known.
type jsBinding struct {
	path  string
	value ast.Expression
	key   string // of the member of value
	scope *jsScope
}

// jsNode is a node with its scope and loop.
type jsNode struct {
	node  ast.Node
	scope *jsScope
	loop  ast.Statement // around it in the same function
}

// jsProgram is a tree with the bindings of its names. The order of statements does not count.
type jsProgram struct {
	jsTree
	top     *jsScope
	nodes   []jsNode
	sets    []jsSet         // assignments to names
	guarded map[string]bool // names that typeof looks at
	steps   int
	memo    map[jsKey][]string
}

type jsSet struct {
	name    string
	scope   *jsScope
	binding jsBinding
}

type jsKey struct {
	node  ast.Node
	scope *jsScope
}

func newScope(parent *jsScope, function bool) *jsScope {
	return &jsScope{parent, function, map[string][]jsBinding{}}
}

// newProgram returns an empty program.
func newProgram() *jsProgram {
	return &jsProgram{top: newScope(nil, true), guarded: map[string]bool{}, memo: map[jsKey][]string{}}
}

func programOf(t jsTree) *jsProgram {
	p := newProgram()
	p.jsTree = t
	for _, i := range t.imports {
		p.top.bind(i.name, jsBinding{path: i.path})
	}
	w := jsWalk{p, p.top, nil}
	for _, s := range t.body {
		w.node(s)
	}
	for _, s := range p.sets {
		scope := s.scope
		for scope.parent != nil && scope.bound[s.name] == nil {
			scope = scope.parent
		}
		scope.bind(s.name, s.binding)
	}
	return p
}

// offset returns the byte offset of a node in the source.
func (p *jsProgram) offset(n ast.Node) int { return int(n.Idx0()) - p.base }

func (s *jsScope) bind(name string, b jsBinding) { s.bound[name] = append(s.bound[name], b) }

// lookup returns the bindings of a name, nil if there are none.
func (s *jsScope) lookup(name string) []jsBinding {
	for ; s != nil; s = s.parent {
		if b := s.bound[name]; b != nil {
			return b
		}
	}
	return nil
}

// hoist returns the scope in which var binds.
func (s *jsScope) hoist() *jsScope {
	for !s.function {
		s = s.parent
	}
	return s
}
