// Package operation describes the operations of a server: each once, with typed arguments and a typed result. Its
// tool, its HTTP route, its schemas, the checks of its arguments and their error messages are derived from that.
package operation

import (
	"encoding/json"
	"reflect"
)

// An Operation is one operation of a server.
type Operation struct {
	Name   string          // name of the tool, and in the OpenAPI document
	Title  string          // title for people
	About  string          // description for people and models
	Route  string          // method and path, in the syntax of http.ServeMux; "" is none
	In     Form            // its arguments
	Out    json.RawMessage // the JSON Schema of its result
	Stream bool            // it returns any number of results: one per line, or as server-sent events
	// Content is the media type of the body of a PUT, or of the answer to a GET, if that is not JSON. The query has
	// the arguments.
	Content string
	Hints   Hints
}

// Hints tell clients whether to ask their user first.
type Hints uint8

// The hints.
const (
	Reads       Hints = 1 << iota // changes nothing
	Destroys                      // may remove or overwrite something
	Repeats                       // a second call with the same arguments changes nothing more
	ReachesOut                    // may reach beyond this machine
	Backgrounds                   // may run as a task
)

// New returns the operation whose arguments are an A, and whose result is an R.
func New[A, R any](name, title, about string, hints Hints) Operation {
	return newOperation(name, title, about, hints, reflect.TypeFor[A](), reflect.TypeFor[R]())
}

func newOperation(name, title, about string, hints Hints, arguments, result reflect.Type) Operation {
	return Operation{Name: name, Title: title, About: about, In: formOf(arguments), Out: raw(typed(result).schema()), Hints: hints}
}
