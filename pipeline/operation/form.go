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

// A Form describes a JSON object by the fields of a struct: its schema, and the values that it accepts.
//
// These tags describe a field; only the first is required:
//
//	json      its name; other words after a comma have no meaning here
//	about     its description for people and models
//	required  "true"
//	blank     "true": it may be empty if it is sent over HTTP
//	exact     "true": a boolean that accepts no strings
//	default   the value if it is omitted
//	oneof     the possible values, separated by spaces
//	range     "1..64": of a number, or of the number of characters or entries; either end may be omitted
//	each      the description of an entry of a list or of an object, whose own range is in eachrange
//	such      an example of a name in an object with names that the caller chooses
//
// A pointer distinguishes an omitted value from zero, and nothing else. A json.RawMessage accepts any JSON, although
// the schema says string.
type Form struct {
	fields []field
	of     reflect.Type
}

// field is one property of an object.
type field struct {
	name, kind, about string
	required          bool
	oneOf             []string          // values of a string; nil is any
	spelled           map[string]string // accepted other spellings of oneOf
	low, high         float64           // of a number
	min, max          int               // characters of a string, entries of an array or object; max 0 is unlimited
	fallback          json.RawMessage   // default value; empty without one
	inner             Form              // form of an object
	each              *field            // entry of an array, or of an object with any names; nil otherwise
	such              string
	any               bool // any JSON is accepted
	blank             bool // an empty value counts as present
	exact             bool // strings are not accepted for booleans
	loose             bool // numbers are accepted for strings
	hidden            bool // accepted, but not in the schema
	at                []int
}

// A Text is a string that also accepts a number: for an environment variable its meaning is clear.
type Text string

// Types of arguments may implement these interfaces to describe more than tags can.
type (
	// choices returns the values of a string.
	choices interface{ Values() []string }
	// spelled returns other spellings of values, in lower case.
	spelled interface{ Spellings() map[string]string }
	// reader converts other forms of an object to the one in the schema. Input that it can't convert stays unchanged.
	reader interface {
		Read(json.RawMessage) json.RawMessage
	}
)

// FormOf returns the form of the struct T. It panics if T has none, a bug that any test finds.
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

// tagged applies the tags of a field.
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
		f.fallback, _ = json.Marshal(text) // never fails for a string
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
		panic("operation: the range of a field is not a number: " + text)
	}
	return n
}

// typed returns the field for a Go type. A nil slice must be omitted by omitempty or be empty, since null is not an
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
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32,
		reflect.Uint64:
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

// Without returns the form without a field in the schema; the field is still accepted.
func (f Form) Without(name string) Form {
	f.fields = slices.Clone(f.fields)
	for i := range f.fields {
		f.fields[i].hidden = f.fields[i].hidden || f.fields[i].name == name
	}
	return f
}

// WithChoices returns the form with additional values of a field that has a list of values.
func (f Form) WithChoices(name string, values ...string) Form {
	f.fields = slices.Clone(f.fields)
	for i := range f.fields {
		if one := &f.fields[i]; one.name == name && one.oneOf != nil {
			one.oneOf = append(slices.Clone(one.oneOf), values...)
		}
	}
	return f
}

// Names returns the names of the fields in the schema.
func (f Form) Names() (all []string) {
	for _, one := range f.fields {
		if !one.hidden {
			all = append(all, one.name)
		}
	}
	return all
}

// Text returns the text of a field of v, a pointer to the form's struct; "" without one.
func (f Form) Text(v any, name string) string {
	i := slices.IndexFunc(f.fields, func(one field) bool { return one.name == name && one.kind == "string" })
	if i < 0 {
		return ""
	}
	return reflect.ValueOf(v).Elem().FieldByIndex(f.fields[i].at).String()
}
