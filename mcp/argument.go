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

	"github.com/mark3labs/mcp-go/mcp"
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

// badArguments is what is wrong with the arguments of a call, one sentence for each.
type badArguments []string

func (b badArguments) Error() string {
	const most = 8
	if len(b) > most {
		b = append(slices.Clone(b[:most]), fmt.Sprintf("and %d more problems", len(b)-most))
	}
	return strings.Join(b, "\n")
}

// bad is for what a tool finds wrong with one argument by itself.
func bad(name, format string, a ...any) error {
	return badArguments{fmt.Sprintf("argument %q: %s", name, fmt.Sprintf(format, a...))}
}

// rawArguments are the arguments as they were sent.
func rawArguments(r mcp.CallToolRequest) json.RawMessage {
	if len(r.Params.RawArguments) > 0 || r.Params.Arguments == nil {
		return r.Params.RawArguments
	}
	b, err := json.Marshal(r.Params.Arguments)
	if err != nil {
		return json.RawMessage(`"` + "arguments that are no JSON" + `"`)
	}
	return b
}

// check reads arguments. It is lenient where there is no doubt what is meant: null is absent, "30"
// is a number where one is due, and a list or object may come as the text of its JSON.
func (f form) check(raw json.RawMessage) (args, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		return nil, badArguments{"the arguments must be an object, such as " + f.example()}
	}
	var problems badArguments
	got := f.take(given, "", &problems)
	if problems != nil {
		return nil, problems
	}
	return got, nil
}

// take checks the members of one object, whose own place is where.
func (f form) take(given map[string]json.RawMessage, where string, problems *badArguments) args {
	got := args{}
	for _, one := range f {
		raw, ok := given[one.name]
		delete(given, one.name)
		if ok && string(raw) != "null" {
			if v, err := one.accept(raw, where+one.name, problems); err == nil {
				got[one.name] = v
			} else {
				*problems = append(*problems, fmt.Sprintf("argument %q: %v", where+one.name, err))
			}
		} else if one.must {
			*problems = append(*problems, fmt.Sprintf("argument %q is missing: it must be %s", where+one.name, one.wanted()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		*problems = append(*problems, f.unknown(clip(name, 80), where))
	}
	return got
}

func (f form) unknown(name, where string) string {
	if meant := f.meant(name); meant != "" {
		return fmt.Sprintf("there is no argument %q: did you mean %q?", where+name, where+meant)
	}
	var names []string
	for _, one := range f {
		names = append(names, one.name)
	}
	if names == nil {
		return fmt.Sprintf("there is no argument %q: send none", where+name)
	}
	return fmt.Sprintf("there is no argument %q: choose from %s", where+name, strings.Join(names, ", "))
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
		if !isText {
			return nil, f.wrong(raw)
		}
		return f.chosen(s)
	case "number", "integer":
		if isText {
			raw = json.RawMessage(strings.TrimSpace(s))
		}
		return f.measured(raw)
	case "boolean":
		if b, err := strconv.ParseBool(strings.ToLower(strings.Trim(string(raw), `"`))); err == nil && (isText || len(raw) > 1) {
			return b, nil
		}
		return nil, f.wrong(raw)
	}
	if isText {
		raw = json.RawMessage(s)
	}
	if f.kind == "array" {
		return f.listed(raw, where, problems)
	}
	return f.filled(raw, where, problems)
}

func (f field) chosen(s string) (any, error) {
	if n := utf8.RuneCountInString(s); f.most > 0 && n > f.most {
		return nil, fmt.Errorf("has %d characters, and %d is the most", n, f.most)
	}
	if f.least > 0 && strings.TrimSpace(s) == "" {
		return nil, fmt.Errorf("must not be empty: send %s", f.wanted())
	}
	if f.values == nil || slices.Contains(f.values, s) {
		return s, nil
	}
	low := strings.ToLower(strings.TrimSpace(s))
	if other, ok := f.spelled[low]; ok {
		return other, nil
	}
	if slices.Contains(f.values, low) {
		return low, nil
	}
	if near := nearest(low, f.values); near != "" {
		return nil, fmt.Errorf("%q is not possible: did you mean %q? It must be %s", clip(s, 80), near, f.wanted())
	}
	return nil, fmt.Errorf("%q is not possible: it must be %s", clip(s, 80), f.wanted())
}

func (f field) measured(raw json.RawMessage) (any, error) {
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || string(raw) == "null" {
		return nil, f.wrong(raw)
	}
	if f.kind == "integer" && n != float64(int64(n)) {
		return nil, fmt.Errorf("must be %s, not %s", f.wanted(), clip(string(raw), 40))
	}
	if (f.low != 0 || f.high != 0) && n < f.low || f.high != 0 && n > f.high {
		return nil, fmt.Errorf("%s is out of range: it must be %s", clip(string(raw), 40), f.wanted())
	}
	return n, nil
}

func (f field) listed(raw json.RawMessage, where string, problems *badArguments) (any, error) {
	var given []json.RawMessage
	if !bytes.HasPrefix(raw, []byte("[")) || json.Unmarshal(raw, &given) != nil {
		return nil, f.wrong(raw)
	}
	if len(given) < f.least || f.most > 0 && len(given) > f.most {
		return nil, fmt.Errorf("has %d entries: it must be %s", len(given), f.wanted())
	}
	all := make([]any, 0, len(given))
	for i, one := range given {
		v, err := f.each.accept(one, fmt.Sprintf("%s[%d]", where, i), problems)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		all = append(all, v)
	}
	return all, nil
}

func (f field) filled(raw json.RawMessage, where string, problems *badArguments) (any, error) {
	var given map[string]json.RawMessage
	if !bytes.HasPrefix(raw, []byte("{")) || json.Unmarshal(raw, &given) != nil {
		return nil, f.wrong(raw)
	}
	if f.each == nil {
		return map[string]any(form(f.fields).take(given, where+".", problems)), nil
	}
	if f.most > 0 && len(given) > f.most {
		return nil, fmt.Errorf("has %d entries, and %d is the most", len(given), f.most)
	}
	all := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		v, err := f.each.accept(given[name], where+"."+name, problems)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", clip(name, 80), err)
		}
		all[name] = v
	}
	return all, nil
}

// wrong is for a value of another type.
func (f field) wrong(raw json.RawMessage) error {
	return fmt.Errorf("must be %s, not %s", f.wanted(), kindOf(raw))
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

// wanted says what a value must be, with an example where that helps.
func (f field) wanted() string {
	switch {
	case f.any:
		return "any JSON value"
	case f.kind == "string" && f.values != nil:
		return "one of " + strings.Join(f.values, ", ")
	case f.kind == "string":
		return "a string"
	case f.kind == "boolean":
		return "true or false"
	case f.kind == "array" && f.most > 0:
		return fmt.Sprintf("a list of %d to %d entries, such as %s", f.least, f.most, f.sample())
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

// sample is a value that would do.
func (f field) sample() string {
	switch f.kind {
	case "string":
		if f.values != nil {
			return strconv.Quote(f.values[0])
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
		return form(f.fields[:1]).example()
	}
	return decimal(max(f.low, 1))
}

// example is an object with all that is required, or else the first thing.
func (f form) example() string {
	var all []string
	for _, one := range f {
		if one.must {
			all = append(all, strconv.Quote(one.name)+": "+one.sample())
		}
	}
	if all == nil && len(f) > 0 {
		all = []string{strconv.Quote(f[0].name) + ": " + f[0].sample()}
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// otherNames are what callers of other tools like ours call the same thing.
var otherNames = map[string][]string{
	"lang": {"language"}, "runtime": {"language"}, "script": {"code"}, "source": {"code"}, "program": {"code"},
	"cmd": {"code", "command"}, "command": {"code"}, "input": {"stdin"}, "session": {"session_id"},
	"id": {"session_id", "request_id"}, "run_id": {"request_id"}, "job_id": {"request_id"}, "task_id": {"request_id"},
	"domains": {"allowed_domains"}, "hosts": {"allowed_domains"}, "host": {"domain"}, "allow": {"allowed_domains"},
	"environment": {"env"}, "argv": {"args"}, "arguments": {"args"}, "limits": {"resource_limits"},
	"pkg": {"packages"}, "dependencies": {"packages"}, "libraries": {"packages"}, "memory": {"max_ram_mb"},
	"memory_mb": {"max_ram_mb"}, "ram_mb": {"max_ram_mb"}, "cpu": {"max_cpu_cores"}, "cores": {"max_cpu_cores"},
	"file": {"name", "path"}, "filename": {"name", "path"}, "variable": {"key"}, "data": {"value", "content"},
	"async": {"background"}, "fix": {"auto_fix"}, "why": {"reason"}, "justification": {"reason"}, "q": {"query"},
	"ns": {"namespace"}, "ttl": {"idle_seconds"}, "max_results": {"limit"}, "count": {"limit"}, "link": {"url"},
}

// meant is the field that a caller most likely had in mind, or "".
func (f form) meant(name string) string {
	var names []string
	for _, one := range f {
		names = append(names, one.name)
	}
	low := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, other := range otherNames[low] {
		if slices.Contains(names, other) {
			return other
		}
	}
	return nearest(low, names)
}

// nearest is the name that is a typing error or two away, has the same words, or begins alike.
func nearest(s string, names []string) string {
	best, least := "", 3
	for _, n := range names {
		if d := distance(s, n); d < least && d*2 < len(n) {
			best, least = n, d
		}
	}
	if best != "" || len(s) < 3 {
		return best
	}
	plain := strings.ReplaceAll(s, "_", "")
	for _, n := range names {
		if p := strings.ReplaceAll(n, "_", ""); strings.HasPrefix(p, plain) || strings.HasPrefix(plain, p) || strings.HasSuffix(p, plain) {
			return n
		}
	}
	return ""
}

// distance is how many letters must be changed, added or left out to make b of a.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before + b2i(a[i] != b[j])
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// clip returns the beginning of s, at most max bytes and a mark.
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	cut := s[:max]
	for len(cut) > 0 && !utf8.RuneStart(s[len(cut)]) {
		cut = cut[:len(cut)-1]
	}
	return cut + "..."
}
