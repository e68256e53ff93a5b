package operation

import (
	"bytes"
	"encoding/json"
)

// Schemas use only features that the strictest clients accept: one type each, a description everywhere, no
// references, no unions, and no conditions.

// members are written in the order of the form, because models read from the top.
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
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schema returns the form as a JSON Schema.
func (f Form) Schema() json.RawMessage { return raw(f.schema()) }

// Brief returns the schema of an unavailable operation: its required fields, or its first field, without
// descriptions.
func (f Form) Brief() json.RawMessage {
	few := members{}
	for i, one := range f.fields {
		if !one.hidden && (one.required || i == 0) { // Gemini refuses tools without arguments
			few = append(few, member{one.name, members{{"type", one.kind}}})
		}
	}
	return raw(members{{"type", "object"}, {"properties", few}})
}

func raw(schema members) json.RawMessage {
	b, err := json.Marshal(schema)
	if err != nil {
		panic("operation: a schema can't be written as JSON: " + err.Error()) // a bug that any test finds
	}
	return b
}

func (f Form) schema() members {
	all, required := members{}, []string{}
	for _, one := range f.fields {
		if one.hidden {
			continue
		}
		all = append(all, member{one.name, one.schema()})
		if one.required {
			required = append(required, one.name)
		}
	}
	m := members{{"type", "object"}, {"properties", all}}
	if len(required) > 0 { // validators of old drafts reject an empty list
		m = append(m, member{"required", required})
	}
	return append(m, member{"additionalProperties", false})
}

func (f field) schema() members {
	m := members{}
	add := func(name string, value any, ok bool) {
		if ok {
			m = append(m, member{name, value})
		}
	}
	add("type", f.kind, f.kind != "") // any JSON without a type
	add("description", f.about, f.about != "")
	switch f.kind {
	case "string":
		add("enum", f.oneOf, f.oneOf != nil)
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
		if f.each == nil {
			m = append(m, f.inner.schema()[1:]...)
			break
		}
		example := *f.each
		example.about = "An example of a name; any other will do. " + example.about
		add("properties", members{{f.such, example.schema()}}, f.such != "") // Gemini refuses a call if the object of one tool has none
		add("additionalProperties", f.each.schema(), true)
	}
	add("default", f.fallback, len(f.fallback) > 0)
	return m
}
