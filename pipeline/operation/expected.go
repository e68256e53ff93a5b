package operation

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// wrong returns the error for a value of another type.
func (f field) wrong(raw json.RawMessage) error {
	return fmt.Errorf("must be %s, not %s", f.expected(), kindOf(raw))
}

func kindOf(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return "an empty string"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "a list"
	case !json.Valid(raw):
		return fmt.Sprintf("the string %q", clip(string(raw), 40))
	case raw[0] == '"':
		return "the string " + clip(string(raw), 40)
	}
	return clip(string(raw), 40)
}

// expected describes the values of a field, with an example if that helps.
func (f field) expected() string {
	switch {
	case f.any:
		return "any JSON value"
	case f.kind == "string" && f.oneOf != nil:
		return "one of " + strings.Join(f.oneOf, ", ")
	case f.kind == "string":
		return "a string"
	case f.kind == "boolean":
		return "true or false"
	case f.kind == "array" && f.max > 0:
		return fmt.Sprintf("a list of %d to %d entries, such as %s", f.min, f.max, f.sample())
	case f.kind == "array", f.kind == "object":
		return map[string]string{"array": "a list", "object": "an object"}[f.kind] + ", such as " + f.sample()
	}
	kind := map[string]string{"number": "a number", "integer": "a whole number"}[f.kind]
	if f.low == 0 && f.high == 0 {
		return kind
	}
	return fmt.Sprintf("%s from %s to %s", kind, decimal(f.low), decimal(f.high))
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// sample returns a valid value.
func (f field) sample() string {
	switch f.kind {
	case "string":
		if f.oneOf != nil {
			return strconv.Quote(f.oneOf[0])
		}
		return `"..."`
	case "boolean":
		return "true"
	case "array":
		return "[" + f.each.sample() + "]"
	case "object":
		if f.each != nil {
			return `{"name": ` + f.each.sample() + `}`
		}
		return Form{fields: f.inner.fields[:1]}.example()
	}
	return decimal(max(f.low, 1))
}

// example returns an object with all required fields, or else the first one.
func (f Form) example() string {
	var all []string
	for _, one := range f.fields {
		if one.required {
			all = append(all, strconv.Quote(one.name)+": "+one.sample())
		}
	}
	if all == nil && len(f.fields) > 0 {
		all = []string{strconv.Quote(f.fields[0].name) + ": " + f.fields[0].sample()}
	}
	return "{" + strings.Join(all, ", ") + "}"
}
