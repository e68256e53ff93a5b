package validate

import (
	"github.com/dop251/goja/ast"
)

// jsScope is a function or a block, with what it binds.
type jsScope struct {
	parent   *jsScope
	function bool
	bound    map[string][]jsBinding
}

// jsBinding is what a name was set to: a path, a value, or neither when that can't be known.
type jsBinding struct {
	path  string
	value ast.Expression
	key   string // of the member of value
	scope *jsScope
}

// jsNode is a node with where it stands.
type jsNode struct {
	node  ast.Node
	scope *jsScope
	loop  ast.Statement // around it in the same function
}

// jsProgram is a tree whose names are known. The order of statements is not looked at.
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

// newProgram is one that knows no node yet.
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

// offset is where a node begins in the source.
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

// hoist is the scope that var binds in.
func (s *jsScope) hoist() *jsScope {
	for !s.function {
		s = s.parent
	}
	return s
}
