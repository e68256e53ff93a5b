package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// args are checked arguments: each has the type that its field says, or is absent. Numbers are
// float64, lists []any, objects map[string]any, and values of any JSON json.RawMessage.
type args map[string]any

func (a args) has(name string) bool { _, ok := a[name]; return ok }

func (a args) text(name string) string { s, _ := a[name].(string); return s }

func (a args) flag(name string) bool { b, _ := a[name].(bool); return b }

func (a args) number(name string) float64 { n, _ := a[name].(float64); return n }

func (a args) object(name string) args { m, _ := a[name].(map[string]any); return m }

func (a args) raw(name string) json.RawMessage { r, _ := a[name].(json.RawMessage); return r }

func (a args) texts(name string) []string {
	all, _ := a[name].([]any)
	list := make([]string, 0, len(all))
	for _, v := range all {
		s, _ := v.(string)
		list = append(list, s)
	}
	return list
}

// badArguments lists the faults in the arguments of a call, a sentence each.
type badArguments []string

func (b badArguments) Error() string {
	const limit = 8
	if len(b) > limit {
		b = append(slices.Clone(b[:limit]), fmt.Sprintf("and %d more problems", len(b)-limit))
	}
	return strings.Join(b, "\n")
}

// bad returns the error of a tool about one of its arguments.
func bad(name, format string, a ...any) error {
	return badArguments{fmt.Sprintf("argument %q: %s", name, fmt.Sprintf(format, a...))}
}

// check reads arguments. It is lenient where there is no doubt what is meant: null is absent, "30"
// is a number where one is due, and a list or object, also that of all arguments, may come as the
// text of its JSON. Only where any JSON is due, null is a value.
func (f form) check(raw json.RawMessage) (args, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return nil, badArguments{"the arguments must be an object, such as " + f.example()}
	}
	var problems badArguments
	got := f.take(members, "", &problems)
	if problems != nil {
		return nil, problems
	}
	return got, nil
}

// take checks the members of one object, whose own place is where.
func (f form) take(members map[string]json.RawMessage, where string, problems *badArguments) args {
	got := args{}
	for _, one := range f {
		raw, ok := members[one.name]
		delete(members, one.name)
		if ok && (one.any || string(raw) != "null") {
			if v, err := one.accept(raw, where+one.name, problems); err == nil {
				got[one.name] = v
			} else {
				*problems = append(*problems, fmt.Sprintf("argument %q: %v", where+one.name, err))
			}
		} else if one.must {
			*problems = append(*problems, fmt.Sprintf("argument %q is missing: it must be %s", where+one.name, one.expected()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		*problems = append(*problems, f.unknown(clip(name, 80), where))
	}
	return got
}

func (f form) unknown(name, where string) string {
	if meant := f.meant(name); meant != "" {
		return fmt.Sprintf("there is no argument %q: did you mean %q?", where+name, where+meant)
	}
	return fmt.Sprintf("there is no argument %q: choose from %s", where+name, strings.Join(f.names(), ", "))
}

// names are the arguments that are offered.
func (f form) names() (all []string) {
	for _, one := range f {
		if !one.quiet {
			all = append(all, one.name)
		}
	}
	return all
}

// accept returns the value of one argument, as args have it. Problems inside of lists and objects
// are appended to problems.
func (f field) accept(raw json.RawMessage, where string, problems *badArguments) (any, error) {
	if f.any {
		return raw, nil
	}
	var s string
	isText := json.Unmarshal(raw, &s) == nil
	switch f.kind {
	case "string":
		if f.loose && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
			return string(raw), nil
		}
		if !isText {
			return nil, f.wrong(raw)
		}
		return f.acceptString(s)
	case "number", "integer":
		if isText {
			raw = json.RawMessage(strings.TrimSpace(s))
		}
		return f.acceptNumber(raw)
	case "boolean":
		if b, err := strconv.ParseBool(strings.ToLower(strings.Trim(string(raw), `"`))); err == nil && (isText || len(raw) > 1) {
			return b, nil
		}
		return nil, f.wrong(raw)
	}
	if isText {
		raw = json.RawMessage(s)
	}
	if f.reshape != nil {
		raw = f.reshape(raw)
	}
	if f.kind == "array" {
		return f.acceptArray(raw, where, problems)
	}
	return f.acceptObject(raw, where, problems)
}

func (f field) acceptString(s string) (any, error) {
	if n := utf8.RuneCountInString(s); f.max > 0 && n > f.max {
		return nil, fmt.Errorf("has %d characters, and %d is the most", n, f.max)
	}
	if f.min > 0 && strings.TrimSpace(s) == "" {
		return nil, fmt.Errorf("must not be empty: send %s", f.expected())
	}
	if f.values == nil || slices.Contains(f.values, s) {
		return s, nil
	}
	low := strings.ToLower(strings.TrimSpace(s))
	if other, ok := f.spelled[low]; ok && slices.Contains(f.values, other) {
		return other, nil
	}
	if slices.Contains(f.values, low) {
		return low, nil
	}
	if near := spelling.Nearest(low, f.values); near != "" {
		return nil, fmt.Errorf("%q is not possible: did you mean %q? It must be %s", clip(s, 80), near, f.expected())
	}
	return nil, fmt.Errorf("%q is not possible: it must be %s", clip(s, 80), f.expected())
}

func (f field) acceptNumber(raw json.RawMessage) (any, error) {
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || string(raw) == "null" {
		return nil, f.wrong(raw)
	}
	if f.kind == "integer" && n != float64(int64(n)) {
		return nil, fmt.Errorf("must be %s, not %s", f.expected(), clip(string(raw), 40))
	}
	if (f.low != 0 || f.high != 0) && n < f.low || f.high != 0 && n > f.high {
		return nil, fmt.Errorf("%s is out of range: it must be %s", clip(string(raw), 40), f.expected())
	}
	return n, nil
}

func (f field) acceptArray(raw json.RawMessage, where string, problems *badArguments) (any, error) {
	var entries []json.RawMessage
	if !bytes.HasPrefix(raw, []byte("[")) || json.Unmarshal(raw, &entries) != nil {
		return nil, f.wrong(raw)
	}
	if len(entries) < f.min || f.max > 0 && len(entries) > f.max {
		return nil, fmt.Errorf("has %d entries: it must be %s", len(entries), f.expected())
	}
	all := make([]any, 0, len(entries))
	for i, one := range entries {
		v, err := f.each.accept(one, fmt.Sprintf("%s[%d]", where, i), problems)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		all = append(all, v)
	}
	return all, nil
}

func (f field) acceptObject(raw json.RawMessage, where string, problems *badArguments) (any, error) {
	var entries map[string]json.RawMessage
	if !bytes.HasPrefix(raw, []byte("{")) || json.Unmarshal(raw, &entries) != nil {
		return nil, f.wrong(raw)
	}
	if f.each == nil {
		return map[string]any(form(f.fields).take(entries, where+".", problems)), nil
	}
	if f.max > 0 && len(entries) > f.max {
		return nil, fmt.Errorf("has %d entries, and %d is the most", len(entries), f.max)
	}
	all := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		v, err := f.each.accept(entries[name], where+"."+name, problems)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", clip(name, 80), err)
		}
		all[name] = v
	}
	return all, nil
}

func clip(s string, max int) string { return safetext.Clip(s, max) }
