// Package operation describes what can be asked of a server: each operation once, with typed arguments and a typed
// result. Its tool, its route over HTTP, its schemas, the checks of its arguments and the words of their faults come
// from that.
package operation

import (
	"encoding/json"
	"reflect"
)

// An Operation is one thing that can be asked of a server.
type Operation struct {
	Name   string          // as a tool, and in the OpenAPI document
	Title  string          // in a few words, for people
	About  string          // what it does, for people and models
	Route  string          // method and path, as http.ServeMux has them; "" is none
	In     Form            // its arguments
	Out    json.RawMessage // the JSON Schema of its result
	Stream bool            // there are any number of results: one a line, or as server-sent events
	// Content is the media type of the body of a PUT, or of the answer to a GET, which is no JSON. The arguments stand in
	// the query.
	Content string
	Hints   Hints
}

// Hints are what clients decide by whether to ask their user first.
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
