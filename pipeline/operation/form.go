package operation

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Form describes a JSON object by the fields of a struct: its schema, and what is accepted as one.
//
// A field is described by these tags, of which only the first must be there:
//
//	json      its name; other words behind a comma have no meaning here
//	about     what it is, for people and models
//	required  "true"
//	blank     "true": it may be empty where it is sent over HTTP
//	exact     "true": of a boolean, no text is understood
//	default   what holds if it is left out, which is set then
//	oneof     the values that it can have, with spaces between them
//	range     "1..64": of a number, or of how many characters or entries there may be; either end may be left out
//	each      what an entry of a list or of an object is, whose own range is in eachrange
//	such      an example of a name in an object whose names the caller chooses
//
// Pointers tell what is left out from zero, and nothing else. Of json.RawMessage, any JSON is understood, although the
// schema says string.
type Form struct {
	fields []field
	of     reflect.Type
}

// field is one property of an object.
type field struct {
	name, kind, about string
	required          bool
	oneOf             []string          // of a string; nil is any
	spelled           map[string]string // other spellings of oneOf, which are understood
	low, high         float64           // of a number
	min, max          int               // characters of a string, entries of an array or object; a max of 0 is any number
	fallback          json.RawMessage   // what holds if it is left out; empty is that nothing does
	inner             Form              // of an object
	each              *field            // entry of an array, or of an object with any names; nil otherwise
	such              string
	any               bool // any JSON is understood
	blank             bool // an empty value is one
	exact             bool // no text is understood where the schema says boolean
	loose             bool // a number is understood where the schema says string
	hidden            bool // it is understood, and offered to nobody
	at                []int
}

// A Text is a string for which a number is understood, too: nobody doubts what is meant by it as an environment
// variable.
type Text string

// Types of arguments may say more of themselves than tags can.
type (
	// choices are the values of a string.
	choices interface{ Values() []string }
	// spelled are other spellings of values, in lower case.
	spelled interface{ Spellings() map[string]string }
	// reader turns other forms of an object into the one that the schema shows. What it can't read stays as it is.
	reader interface {
		Read(json.RawMessage) json.RawMessage
	}
)

// FormOf returns the form of the struct T. It panics on a T that has none, which is a bug that any test finds.
func FormOf[T any]() Form { return formOf(reflect.TypeFor[T]()) }

func formOf(t reflect.Type) Form {
	f := Form{of: t}
	f.add(t, nil)
	return f
}

// add adds the exported fields of a struct.
func (f *Form) add(t reflect.Type, at []int) {
	for i := range t.NumField() {
		one, place := t.Field(i), append(slices.Clone(at), i)
		name, _, _ := strings.Cut(one.Tag.Get("json"), ",")
		switch {
		case one.Anonymous && name == "":
			f.add(one.Type, place)
			continue
		case !one.IsExported() || name == "-":
			continue
		case name == "":
			name = one.Name
		}
		made := typed(one.Type)
		made.name, made.at = name, place
		made.tagged(one.Tag)
		f.fields = append(f.fields, made)
	}
}

// tagged sets what the tags of a field say.
func (f *field) tagged(tag reflect.StructTag) {
	f.about, f.such, f.required = tag.Get("about"), tag.Get("such"), tag.Get("required") == "true"
	f.exact, f.blank = tag.Get("exact") == "true", tag.Get("blank") == "true"
	if values := tag.Get("oneof"); values != "" {
		f.oneOf = strings.Fields(values)
	}
	f.ranged(tag.Get("range"))
	if about := tag.Get("each"); about != "" {
		f.each.about = about
		f.each.ranged(tag.Get("eachrange"))
	}
	if text := tag.Get("default"); f.kind == "string" && text != "" {
		f.fallback, _ = json.Marshal(text) // of a string
	} else {
		f.fallback = json.RawMessage(text)
	}
}

func (f *field) ranged(bounds string) {
	if bounds == "" {
		return
	}
	from, to, _ := strings.Cut(bounds, "..")
	low, high := decimalOf(from), decimalOf(to)
	if f.kind == "number" || f.kind == "integer" {
		f.low, f.high = low, high
	} else {
		f.min, f.max = int(low), int(high)
	}
}

func decimalOf(text string) float64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("operation: the range of a field is no number: " + text)
	}
	return n
}

// typed returns the field for a Go type. A nil slice must be left out by omitempty or made empty, since null is no
// array.
func typed(t reflect.Type) field {
	if t.Kind() == reflect.Pointer {
		return typed(t.Elem())
	}
	var f field
	zero := reflect.New(t).Elem().Interface()
	if one, ok := zero.(choices); ok {
		f.oneOf = one.Values()
	}
	if one, ok := zero.(spelled); ok {
		f.spelled = one.Spellings()
	}
	switch _, written := zero.(encoding.TextMarshaler); {
	case t == reflect.TypeFor[json.RawMessage]():
		f.kind, f.any = "string", true
		return f
	case t == reflect.TypeFor[time.Time](), t == reflect.TypeFor[[]byte](), written:
		f.kind = "string"
		return f
	case t.Kind() == reflect.Interface, t.Implements(reflect.TypeFor[json.Marshaler]()):
		f.any = true
		return f
	}
	switch t.Kind() {
	case reflect.String:
		f.kind, f.loose = "string", t == reflect.TypeFor[Text]()
	case reflect.Bool:
		f.kind = "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.kind = "integer"
	case reflect.Float32, reflect.Float64:
		f.kind = "number"
	case reflect.Slice, reflect.Map:
		each := typed(t.Elem())
		if each.about = "One value."; each.kind == "object" {
			each.about = "One entry."
		}
		f.each, f.kind = &each, "array"
		if t.Kind() == reflect.Map {
			f.kind = "object"
		}
	case reflect.Struct:
		f.kind, f.inner = "object", formOf(t)
	default:
		panic(fmt.Sprintf("operation: no form for %v", t))
	}
	return f
}

// Without returns the form without offering a field, which is understood all the same.
func (f Form) Without(name string) Form {
	f.fields = slices.Clone(f.fields)
	for i := range f.fields {
		f.fields[i].hidden = f.fields[i].hidden || f.fields[i].name == name
	}
	return f
}

// WithChoices returns the form with more values of a field that has a choice of them.
func (f Form) WithChoices(name string, values ...string) Form {
	f.fields = slices.Clone(f.fields)
	for i := range f.fields {
		if one := &f.fields[i]; one.name == name && one.oneOf != nil {
			one.oneOf = append(slices.Clone(one.oneOf), values...)
		}
	}
	return f
}

// Names are the fields that are offered.
func (f Form) Names() (all []string) {
	for _, one := range f.fields {
		if !one.hidden {
			all = append(all, one.name)
		}
	}
	return all
}

// Text returns the text of a field of v, which is a pointer to what the form is of; "" is that there is none.
func (f Form) Text(v any, name string) string {
	i := slices.IndexFunc(f.fields, func(one field) bool { return one.name == name && one.kind == "string" })
	if i < 0 {
		return ""
	}
	return reflect.ValueOf(v).Elem().FieldByIndex(f.fields[i].at).String()
}
