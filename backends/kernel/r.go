package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// rCodec encodes for R without a JSON package: the fields of the shell's codec after the length of the word line,
// and values as R code.
type rCodec struct{ shellCodec }

func (rCodec) driver(source string) ([]byte, error) {
	return fmt.Appendf(nil, "%010d%s", len(source), source), nil
}

func (rCodec) encode(q request) ([]byte, error) {
	var fields []string
	switch q.Op {
	case "run":
		fields = append([]string{q.Code, q.Name}, q.environment()...)
	case "set":
		value, err := rValue(q.Value)
		if err != nil {
			return nil, err
		}
		fields = append(fields, q.Key, value)
	case "get":
		fields = append(fields, q.Key)
	}
	header, body, err := joinFields(q.Op, q, fields)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%010d%s%s", len(header), header, body), nil
}

// rValue returns R code for a JSON value: an array of only numbers, strings or booleans becomes a vector, in which
// null is NA; other arrays become lists.
func rValue(value json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	code, _, err := rNext(nil, d)
	return string(code), err
}

// rNext appends R code for the next value of d, and returns its kind: values of one kind may form a vector. It
// makes no copy per nesting level.
func rNext(code []byte, d *json.Decoder) (_ []byte, kind string, err error) {
	t, err := d.Token()
	if err != nil {
		return nil, "", err
	}
	switch t := t.(type) {
	case nil:
		return append(code, "NULL"...), "null", nil
	case bool:
		return append(code, strings.ToUpper(strconv.FormatBool(t))...), "bool", nil
	case json.Number:
		if _, err := strconv.ParseInt(t.String(), 10, 32); err == nil && t != "-2147483648" {
			t += "L"
		}
		return append(code, t...), "number", nil
	case string:
		return append(code, rString(t)...), "string", nil
	}
	begin, object := len(code), t == json.Delim('{')
	if object {
		code = append(code, "structure("...)
	}
	code = append(code, "list("...)
	var names []string // keys of an object in their order
	var starts []int   // offsets of items, each of which ends one byte before the next
	kinds := map[string]bool{}
	for d.More() {
		if object {
			name, err := d.Token()
			if err != nil {
				return nil, "", err
			}
			names = append(names, rString(name.(string)))
		}
		if len(starts) > 0 {
			code = append(code, ',')
		}
		starts = append(starts, len(code))
		if code, kind, err = rNext(code, d); err != nil {
			return nil, "", err
		}
		kinds[kind] = true
	}
	if _, err := d.Token(); err != nil {
		return nil, "", err
	}
	code = append(code, ')')
	delete(kinds, "null")
	switch {
	case object:
		if len(names) == 0 {
			names = []string{"character()"}
		}
		return append(code, ",names=c("+strings.Join(names, ",")+"))"...), "other", nil
	case len(kinds) != 1 || kinds["other"]:
		return code, "other", nil
	}
	var items []string
	for i, next := range append(starts[1:], len(code)) {
		item := string(code[starts[i] : next-1])
		if item == "NULL" {
			item = "NA"
		}
		items = append(items, item)
	}
	return append(code[:begin], "c("+strings.Join(items, ",")+")"...), "other", nil
}

// rString quotes a string for R, which has no NUL bytes in strings.
func rString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
