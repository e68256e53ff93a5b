package operation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// maxProblems bounds the sentences for a caller.
const maxProblems = 8

// Invalid lists the problems with the arguments of a call, one sentence each.
type Invalid []string

func (b Invalid) Error() string {
	if len(b) > maxProblems {
		b = append(slices.Clone(b[:maxProblems]), fmt.Sprintf("and %d more problems", len(b)-maxProblems))
	}
	return strings.Join(b, "\n")
}

// ArgumentError returns an error about one argument that the form could not detect.
func ArgumentError(name, format string, a ...any) error {
	return Invalid{fmt.Sprintf("argument %q: %s", name, fmt.Sprintf(format, a...))}
}

// Check parses arguments, and returns a pointer to the form's struct. It is lenient if the meaning is clear: null is
// absent, "30" is a number where one is expected, and a list or object, even that of all arguments, may be a string
// with its JSON. Only where any JSON is allowed, null is a value. Errors are an [Invalid].
func (f Form) Check(raw json.RawMessage) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	var sent map[string]json.RawMessage
	var text string
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if countEntries(raw) > maxMembers {
		return nil, Invalid{fmt.Sprintf("there are more than %d arguments", maxMembers)}
	}
	if json.Unmarshal(raw, &sent) != nil || sent == nil {
		return nil, Invalid{"the arguments must be an object, such as " + f.example()}
	}
	return f.decode(sent, false)
}

// maxMembers bounds the members of an object of arguments, and the entries of a list without its own bound.
const maxMembers = 1000

// countEntries returns the number of members or entries in a JSON text, and 1 for none. Each takes more memory than
// its text, so they are counted before decoding.
func countEntries(raw []byte) int {
	depth, n, quoted := 0, 1, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 1:
			n++
		}
	}
	return n
}

// decode decodes arguments into a new value. Strict decoding does not treat empty values as absent: an empty variable
// of a script would request more than its author meant.
func (f Form) decode(sent map[string]json.RawMessage, strict bool) (any, error) {
	c, into := checking{strict: strict}, reflect.New(f.of)
	c.object(f, sent, "", into.Elem())
	if c.problems != nil {
		return nil, c.problems
	}
	return into.Interface(), nil
}

// checking collects the problems of one call.
type checking struct {
	strict   bool
	problems Invalid
}

// isBlank reports whether a value is null, or an empty string or list.
func isBlank(raw json.RawMessage) bool {
	switch raw[0] {
	case 'n':
		return true
	case '"':
		var s string
		return json.Unmarshal(raw, &s) == nil && strings.TrimSpace(s) == ""
	case '[':
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
	}
	return false
}

func (c *checking) problem(format string, a ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, a...))
}

// object checks the members of one object at the position where.
func (c *checking) object(f Form, sent map[string]json.RawMessage, where string, into reflect.Value) {
	known := map[string]bool{}
	for _, one := range f.fields {
		known[one.name] = true
		raw, ok := sent[one.name]
		if ok && c.strict && !one.any && !one.blank && isBlank(raw) {
			c.problem("argument %q is empty: leave it out, or give a value", where+one.name)
		} else if ok && (one.any || string(raw) != "null") {
			if err := c.value(one, raw, where+one.name, into.FieldByIndex(one.at)); err != nil {
				c.problem("argument %q: %v", where+one.name, err)
			}
		} else if one.required {
			c.problem("argument %q is missing: it must be %s", where+one.name, one.expected())
		} else if len(one.fallback) > 0 {
			_ = c.value(one, one.fallback, "", into.FieldByIndex(one.at)) // defaults are valid: see the tests
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		switch {
		case known[name]:
		case len(c.problems) < maxProblems:
			c.problems = append(c.problems, f.unknown(clip(name, 80), where))
		default: // only count further ones: there may be a million
			c.problems = append(c.problems, "")
		}
	}
}

func (f Form) unknown(name, where string) string {
	if meant := f.suggestName(name); meant != "" {
		return fmt.Sprintf("unknown argument %q: did you mean %q?", where+name, where+meant)
	}
	if len(f.Names()) == 0 {
		return fmt.Sprintf("unknown argument %q: there are no arguments", where+name)
	}
	return fmt.Sprintf("unknown argument %q: choose from %s", where+name, strings.Join(f.Names(), ", "))
}

// value decodes the value of one argument into a variable.
func (c *checking) value(f field, raw json.RawMessage, where string, into reflect.Value) error {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if f.any {
		into.SetBytes(raw)
		return nil
	}
	var s string
	isText := raw[0] == '"' && json.Unmarshal(raw, &s) == nil
	switch f.kind {
	case "string":
		switch {
		case isText:
		case f.loose && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9'):
			s = string(raw)
		default:
			return f.wrong(raw)
		}
		return f.setString(s, into)
	case "number", "integer":
		if isText {
			raw = json.RawMessage(strings.TrimSpace(s))
		}
		return f.setNumber(raw, into)
	case "boolean":
		b, err := strconv.ParseBool(strings.ToLower(strings.Trim(string(raw), `"`)))
		if err != nil || !isText && len(raw) == 1 || isText && f.exact {
			return f.wrong(raw)
		}
		into.SetBool(b)
		return nil
	}
	if isText {
		raw = json.RawMessage(s)
	}
	if one, ok := into.Interface().(reader); ok {
		raw = one.Read(raw)
	}
	if f.kind == "array" {
		return c.array(f, raw, where, into)
	}
	return c.named(f, raw, where, into)
}

func (f field) setString(s string, into reflect.Value) error {
	if n := utf8.RuneCountInString(s); f.max > 0 && n > f.max {
		return fmt.Errorf("has %d characters, the maximum is %d", n, f.max)
	}
	if f.min > 0 && strings.TrimSpace(s) == "" {
		return fmt.Errorf("must not be empty: send %s", f.expected())
	}
	if f.oneOf != nil && !slices.Contains(f.oneOf, s) {
		low := strings.ToLower(strings.TrimSpace(s))
		if other, ok := f.spelled[low]; ok {
			low = other
		}
		if !slices.Contains(f.oneOf, low) {
			if near := spelling.Nearest(low, f.oneOf); near != "" {
				return fmt.Errorf("%q is not allowed: did you mean %q? It must be %s", clip(s, 80), near, f.expected())
			}
			return fmt.Errorf("%q is not allowed: it must be %s", clip(s, 80), f.expected())
		}
		s = low
	}
	into.SetString(s)
	return nil
}

func (f field) setNumber(raw json.RawMessage, into reflect.Value) error {
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || string(raw) == "null" {
		return f.wrong(raw)
	}
	if f.kind == "integer" && n != float64(int64(n)) {
		return fmt.Errorf("must be %s, not %s", f.expected(), clip(string(raw), 40))
	}
	if (f.low != 0 || f.high != 0) && n < f.low || f.high != 0 && n > f.high {
		return fmt.Errorf("%s is out of range: it must be %s", clip(string(raw), 40), f.expected())
	}
	switch {
	case into.CanInt():
		into.SetInt(int64(n))
	case into.CanUint() && n < 0:
		return fmt.Errorf("%s is out of range: it must not be negative", clip(string(raw), 40))
	case into.CanUint():
		into.SetUint(uint64(n))
	default:
		into.SetFloat(n)
	}
	return nil
}

func (c *checking) array(f field, raw json.RawMessage, where string, into reflect.Value) error {
	var sent []json.RawMessage
	if n := countEntries(raw); n > cmp.Or(f.max, maxMembers) {
		return fmt.Errorf("has %d entries: it must be %s", n, f.expected())
	}
	if !bytes.HasPrefix(raw, []byte("[")) || json.Unmarshal(raw, &sent) != nil {
		return f.wrong(raw)
	}
	if len(sent) < f.min {
		return fmt.Errorf("has %d entries: it must be %s", len(sent), f.expected())
	}
	all := reflect.MakeSlice(into.Type(), len(sent), len(sent))
	for i, one := range sent {
		if c.strict && !f.each.any && isBlank(one) {
			return fmt.Errorf("entry %d is empty", i+1)
		}
		if err := c.value(*f.each, one, fmt.Sprintf("%s[%d]", where, i), all.Index(i)); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	into.Set(all)
	return nil
}

// named checks an object, or one with names that the caller chooses.
func (c *checking) named(f field, raw json.RawMessage, where string, into reflect.Value) error {
	var sent map[string]json.RawMessage
	if n, most := countEntries(raw), cmp.Or(f.max, maxMembers); n > most {
		return fmt.Errorf("has %d entries, the maximum is %d", n, most)
	}
	if !bytes.HasPrefix(raw, []byte("{")) || json.Unmarshal(raw, &sent) != nil {
		return f.wrong(raw)
	}
	if f.each == nil {
		c.object(f.inner, sent, where+".", into)
		return nil
	}
	all := reflect.MakeMap(into.Type())
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		one := reflect.New(into.Type().Elem()).Elem()
		if err := c.value(*f.each, sent[name], where+"."+name, one); err != nil {
			return fmt.Errorf("entry %q: %w", clip(name, 80), err)
		}
		all.SetMapIndex(reflect.ValueOf(name), one)
	}
	into.Set(all)
	return nil
}

func clip(s string, max int) string { return safetext.Clip(s, max) }
