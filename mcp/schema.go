package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// A field is one property of a JSON object: what a schema says about it, and what is accepted.
//
// Schemas keep to what the strictest clients take: one type each, a description everywhere, no
// references, no unions, and nothing that depends on something else.
type field struct {
	name, kind, about string
	must              bool
	values            []string          // of a string; nil is any
	spelled           map[string]string // other spellings of values, which are understood
	low, high         float64           // of a number
	max               int               // characters of a string, entries of an array or object; 0 is any number
	min               int
	fallback          any
	fields            []field // of an object
	each              *field  // entry of an array, or of an object with any names
	any               bool    // any JSON is understood, although the schema says string
	loose             bool    // a number is understood, where the schema says string
	quiet             bool    // it is understood, and offered to nobody
	like              string  // an example of the names of an object with any names

	reshape func(json.RawMessage) json.RawMessage // understands other forms of an object; may be nil
}

func text(name, about string) field { return field{name: name, kind: "string", about: about} }

func choice(name, about string, values ...string) field {
	return field{name: name, kind: "string", about: about, values: values}
}

func number(name, about string, low, high float64) field {
	return field{name: name, kind: "number", about: about, low: low, high: high}
}

func integer(name, about string, low, high float64) field {
	return field{name: name, kind: "integer", about: about, low: low, high: high}
}

func toggle(name, about string) field {
	return field{name: name, kind: "boolean", about: about, fallback: false}
}

func list(name, about string, each field) field {
	return field{name: name, kind: "array", about: about, each: &each}
}

func object(name, about string, fields ...field) field {
	return field{name: name, kind: "object", about: about, fields: fields}
}

// named is an object whose names the caller chooses. It needs an example of a name, see such.
func named(name, about string, each field) field {
	return field{name: name, kind: "object", about: about, each: &each}
}

func (f field) required() field       { f.must = true; return f }
func (f field) or(fallback any) field { f.fallback = fallback; return f }
func (f field) upTo(n int) field      { f.max = n; return f }
func (f field) atLeast(n int) field   { f.min = n; return f }

func (f field) orNumber() field { f.loose = true; return f }

// such gives an object with any names a property with one of them: Gemini refuses a tool, and with it
// all others of the call, when one of its objects has no properties.
func (f field) such(name string) field { f.like = name; return f }

func (f field) spelling(other map[string]string) field { f.spelled = other; return f }

// form is the object that a tool takes or gives.
type form []field

// members are written in the order of the form: models read from the top.
type members []member

type member struct {
	name  string
	value any
}

func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range m {
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", marshal(one.name), value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schema returns the form as a JSON schema.
func (f form) schema() members {
	all, must := members{}, []string{}
	for _, one := range f {
		if one.quiet {
			continue
		}
		all = append(all, member{one.name, one.schema()})
		if one.must {
			must = append(must, one.name)
		}
	}
	m := members{{"type", "object"}, {"properties", all}}
	if len(must) > 0 { // an empty list is an error to validators of old drafts
		m = append(m, member{"required", must})
	}
	return append(m, member{"additionalProperties", false})
}

// schema returns the JSON schema of a field.
func (f field) schema() members {
	m := members{{"type", f.kind}, {"description", f.about}}
	add := func(name string, value any, ok bool) {
		if ok {
			m = append(m, member{name, value})
		}
	}
	switch f.kind {
	case "string":
		add("enum", f.values, f.values != nil)
		add("minLength", f.min, f.min > 0)
		add("maxLength", f.max, f.max > 0)
	case "number", "integer":
		add("minimum", f.low, f.low != 0 || f.high != 0)
		add("maximum", f.high, f.high != 0)
	case "array":
		add("items", f.each.schema(), true)
		add("minItems", f.min, f.min > 0)
		add("maxItems", f.max, f.max > 0)
	case "object":
		if f.each != nil {
			example := *f.each
			example.about = "An example of a name; any other will do. " + example.about
			add("properties", members{{f.like, example.schema()}}, f.like != "")
			add("additionalProperties", f.each.schema(), true)
			break
		}
		inner := form(f.fields).schema()
		m = append(m, inner[1:]...)
	}
	add("default", f.fallback, f.fallback != nil)
	return m
}

// shape returns the form of the struct T, by its json and about tags.
// Only the text is there in each answer, refusals among them, so only that is required.
func shape[T any]() form {
	var f form
	addFields(&f, reflect.TypeFor[T]())
	return f
}

// addFields adds the exported fields of a struct to a form, by their tags.
func addFields(to *form, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			addFields(to, f.Type)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		one := typed(f.Type)
		one.name, one.about, one.must = name, f.Tag.Get("about"), name == "text"
		*to = append(*to, one)
	}
}

// typed returns the field for a Go type. Times are strings, and a nil slice must be left out by
// omitempty or made empty, since null is no array.
func typed(t reflect.Type) field {
	switch t.Kind() {
	case reflect.Pointer:
		return typed(t.Elem())
	case reflect.String:
		return field{kind: "string"}
	case reflect.Bool:
		return field{kind: "boolean"}
	case reflect.Int, reflect.Int64:
		return field{kind: "integer"}
	case reflect.Float64:
		return field{kind: "number"}
	case reflect.Slice, reflect.Map:
		each := typed(t.Elem())
		if each.about = "One value."; t.Elem().Kind() == reflect.Struct {
			each.about = "One entry."
		}
		return field{kind: map[reflect.Kind]string{reflect.Slice: "array", reflect.Map: "object"}[t.Kind()], each: &each}
	case reflect.Struct:
		var f form
		addFields(&f, t)
		return field{kind: "object", fields: f}
	}
	panic("mcp: no schema for " + t.String())
}
