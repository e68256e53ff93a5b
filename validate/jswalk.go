package validate

import (
	"reflect"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// jsWalk walks a tree.
type jsWalk struct {
	p     *jsProgram
	scope *jsScope
	loop  ast.Statement
}

func (w jsWalk) in(function bool) jsWalk {
	w.scope = newScope(w.scope, function)
	if function {
		w.loop = nil
	}
	return w
}

func (w jsWalk) within(loop ast.Statement) jsWalk {
	w.loop = loop
	return w
}

// node records a node, its bindings, and the nodes below it.
func (w jsWalk) node(n ast.Node) {
	w.p.nodes = append(w.p.nodes, jsNode{n, w.scope, w.loop})
	switch x := n.(type) {
	case ast.Statement:
		w.statement(x)
	case ast.Expression:
		w.expression(x)
	}
}

func (w jsWalk) statements(list []ast.Statement) {
	for _, s := range list {
		w.node(s)
	}
}

// some walks expressions, of which some may be nil.
func (w jsWalk) some(list ...ast.Expression) {
	for _, e := range list {
		if e != nil {
			w.node(e)
		}
	}
}

func (w jsWalk) statement(n ast.Statement) {
	switch x := n.(type) {
	case *ast.BlockStatement:
		w.in(false).statements(x.List)
	case *ast.VariableStatement:
		w.bindings(x.List, w.scope.hoist())
	case *ast.LexicalDeclaration:
		w.bindings(x.List, w.scope)
	case *ast.FunctionDeclaration:
		if x.Function.Name != nil {
			w.scope.bind(string(x.Function.Name.Name), jsBinding{})
		}
		w.node(x.Function)
	case *ast.ClassDeclaration:
		if x.Class.Name != nil {
			w.scope.bind(string(x.Class.Name.Name), jsBinding{})
		}
		w.node(x.Class)
	case *ast.SwitchStatement:
		w.some(x.Discriminant)
		w = w.in(false)
		for _, c := range x.Body {
			w.some(c.Test)
			w.statements(c.Consequent)
		}
	case *ast.TryStatement:
		w.node(x.Body)
		if x.Catch != nil {
			in := w.in(false)
			if x.Catch.Parameter != nil {
				in.target(x.Catch.Parameter, jsBinding{}, in.scope)
			}
			in.node(x.Catch.Body)
		}
		if x.Finally != nil {
			w.node(x.Finally)
		}
	case *ast.WhileStatement, *ast.DoWhileStatement, *ast.ForStatement, *ast.ForInStatement, *ast.ForOfStatement:
		w.loops(n)
	default:
		w.below(n)
	}
}

// below visits the expressions and statements in the fields of a node, which have the order of the source.
func (w jsWalk) below(n ast.Node) {
	for _, field := range reflect.ValueOf(n).Elem().Fields() {
		if kind := field.Kind(); kind != reflect.Interface && kind != reflect.Slice { // names are pointers or structs
			continue
		}
		switch x := field.Interface().(type) {
		case []ast.Expression:
			w.some(x...)
		case ast.Node:
			w.node(x)
		}
	}
}

func (w jsWalk) loops(n ast.Statement) {
	w = w.in(false)
	switch x := n.(type) {
	case *ast.WhileStatement:
		w.some(x.Test)
		w.within(x).node(x.Body)
	case *ast.DoWhileStatement:
		w.some(x.Test)
		w.within(x).node(x.Body)
	case *ast.ForStatement:
		switch i := x.Initializer.(type) {
		case *ast.ForLoopInitializerExpression:
			w.some(i.Expression)
		case *ast.ForLoopInitializerVarDeclList:
			w.bindings(i.List, w.scope.hoist())
		case *ast.ForLoopInitializerLexicalDecl:
			w.bindings(i.LexicalDeclaration.List, w.scope)
		}
		w.some(x.Test, x.Update)
		w.within(x).node(x.Body)
	case *ast.ForInStatement:
		w.into(x.Into)
		w.some(x.Source)
		w.within(x).node(x.Body)
	case *ast.ForOfStatement:
		w.into(x.Into)
		w.some(x.Source)
		w.within(x).node(x.Body)
	}
}

func (w jsWalk) into(into ast.ForInto) {
	switch x := into.(type) {
	case *ast.ForIntoVar:
		w.target(x.Binding.Target, jsBinding{}, w.scope.hoist())
	case *ast.ForDeclaration:
		w.target(x.Target, jsBinding{}, w.scope)
	case *ast.ForIntoExpression:
		w.assigned(x.Expression, jsBinding{})
	}
}

func (w jsWalk) bindings(list []*ast.Binding, scope *jsScope) {
	for _, b := range list {
		w.target(b.Target, jsBinding{value: b.Initializer, scope: w.scope}, scope)
		w.some(b.Initializer)
	}
}

// target binds the names of a pattern in a scope.
func (w jsWalk) target(t ast.Expression, b jsBinding, scope *jsScope) {
	w.pattern(t, b, func(name string, b jsBinding) { scope.bind(name, b) })
}

// assigned records assignments to the names of a pattern, wherever they are bound.
func (w jsWalk) assigned(t ast.Expression, b jsBinding) {
	switch t.(type) {
	case *ast.Identifier, *ast.ObjectPattern, *ast.ArrayPattern:
		w.pattern(t, b, func(name string, b jsBinding) {
			w.p.sets = append(w.p.sets, jsSet{name, w.scope, b})
		})
	default:
		w.some(t)
	}
}

func (w jsWalk) pattern(t ast.Expression, b jsBinding, bind func(string, jsBinding)) {
	switch x := t.(type) {
	case *ast.Identifier:
		bind(string(x.Name), b)
	case *ast.Binding:
		w.pattern(x.Target, b, bind)
		w.some(x.Initializer)
	case *ast.AssignExpression: // a default
		w.pattern(x.Left, b, bind)
		w.some(x.Right)
	case *ast.ObjectPattern:
		for _, p := range x.Properties {
			switch q := p.(type) {
			case *ast.PropertyShort:
				bind(string(q.Name.Name), b.member(string(q.Name.Name)))
				w.some(q.Initializer)
			case *ast.PropertyKeyed:
				key, isString := q.Key.(*ast.StringLiteral)
				if q.Computed || !isString {
					w.some(q.Key)
					w.pattern(q.Value, jsBinding{}, bind)
					continue
				}
				w.pattern(q.Value, b.member(string(key.Value)), bind)
			}
		}
		if x.Rest != nil {
			w.pattern(x.Rest, jsBinding{}, bind)
		}
	case *ast.ArrayPattern:
		for _, e := range x.Elements {
			if e != nil {
				w.pattern(e, jsBinding{}, bind)
			}
		}
		if x.Rest != nil {
			w.pattern(x.Rest, jsBinding{}, bind)
		}
	case nil:
	default: // a.b in [a.b] = c
		w.some(t)
	}
}

func (b jsBinding) member(name string) jsBinding {
	if b.value == nil || b.key != "" {
		return jsBinding{}
	}
	b.key = name
	return b
}

func (w jsWalk) expression(n ast.Expression) {
	switch x := n.(type) {
	case *ast.AssignExpression:
		w.some(x.Right)
		b := jsBinding{value: x.Right, scope: w.scope}
		if x.Operator != token.ASSIGN && x.Operator != token.LOGICAL_OR && x.Operator != token.COALESCE {
			b = jsBinding{}
		}
		w.assigned(x.Left, b)
	case *ast.UnaryExpression:
		if id, is := x.Operand.(*ast.Identifier); is && x.Operator == token.TYPEOF {
			w.p.guarded[string(id.Name)] = true
		}
		w.some(x.Operand)
	case *ast.ObjectLiteral:
		for _, p := range x.Value {
			w.property(p)
		}
	case *ast.FunctionLiteral, *ast.ArrowFunctionLiteral, *ast.ClassLiteral:
		w.functions(n)
	default:
		w.below(n)
	}
}

func (w jsWalk) property(p ast.Property) {
	switch x := p.(type) {
	case *ast.PropertyShort:
		w.node(&x.Name)
		w.some(x.Initializer)
	case *ast.PropertyKeyed:
		if x.Computed {
			w.some(x.Key)
		}
		w.some(x.Value)
	case *ast.SpreadElement:
		w.some(x.Expression)
	}
}

func (w jsWalk) functions(n ast.Expression) {
	switch x := n.(type) {
	case *ast.FunctionLiteral:
		w = w.in(true)
		if x.Name != nil {
			w.scope.bind(string(x.Name.Name), jsBinding{})
		}
		w.scope.bind("arguments", jsBinding{})
		w.parameters(x.ParameterList)
		w.statements(x.Body.List)
	case *ast.ArrowFunctionLiteral:
		w = w.in(true)
		w.parameters(x.ParameterList)
		switch body := x.Body.(type) {
		case *ast.BlockStatement:
			w.statements(body.List)
		case *ast.ExpressionBody:
			w.some(body.Expression)
		}
	case *ast.ClassLiteral:
		w.some(x.SuperClass)
		w = w.in(false)
		if x.Name != nil {
			w.scope.bind(string(x.Name.Name), jsBinding{})
		}
		for _, e := range x.Body {
			w.element(e)
		}
	}
}

func (w jsWalk) parameters(list *ast.ParameterList) {
	for _, b := range list.List {
		w.target(b.Target, jsBinding{}, w.scope)
		w.some(b.Initializer)
	}
	if list.Rest != nil {
		w.target(list.Rest, jsBinding{}, w.scope)
	}
}

func (w jsWalk) element(e ast.ClassElement) {
	switch x := e.(type) {
	case *ast.FieldDefinition:
		if x.Computed {
			w.some(x.Key)
		}
		w.in(true).some(x.Initializer)
	case *ast.MethodDefinition:
		if x.Computed {
			w.some(x.Key)
		}
		w.node(x.Body)
	case *ast.ClassStaticBlock:
		w.in(true).node(x.Block)
	}
}
