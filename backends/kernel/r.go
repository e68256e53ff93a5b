package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// rCodec encodes for R without a JSON package: the fields of a shell's codec, behind the length of the line of words,
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
	header, body, err := join(q.Op, q, fields)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%010d%s%s", len(header), header, body), nil
}

// rValue returns R code for a JSON value: an array of numbers, of strings or of truth values is a vector, in which null is
// NA; others are lists.
func rValue(value json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	code, _, err := rNext(d)
	return code, err
}

// rNext returns R code for the next value of d, and its kind: values of one kind may form a vector.
func rNext(d *json.Decoder) (code, kind string, err error) {
	t, err := d.Token()
	if err != nil {
		return "", "", err
	}
	switch t := t.(type) {
	case nil:
		return "NULL", "null", nil
	case bool:
		return strings.ToUpper(strconv.FormatBool(t)), "bool", nil
	case json.Number:
		if _, err := strconv.ParseInt(t.String(), 10, 32); err == nil && t != "-2147483648" {
			t += "L"
		}
		return t.String(), "number", nil
	case string:
		return rString(t), "string", nil
	}
	var names, items []string // of an object in its order
	kinds := map[string]bool{}
	for d.More() {
		if t == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return "", "", err
			}
			names = append(names, rString(name.(string)))
		}
		item, kind, err := rNext(d)
		if err != nil {
			return "", "", err
		}
		items, kinds[kind] = append(items, item), true
	}
	if _, err := d.Token(); err != nil {
		return "", "", err
	}
	delete(kinds, "null")
	list := "list(" + strings.Join(items, ",") + ")"
	switch {
	case t == json.Delim('{'):
		if len(names) == 0 {
			names = []string{"character()"}
		}
		return "structure(" + list + ",names=c(" + strings.Join(names, ",") + "))", "other", nil
	case len(kinds) != 1 || kinds["other"]:
		return list, "other", nil
	}
	for i, item := range items {
		if item == "NULL" {
			items[i] = "NA"
		}
	}
	return "c(" + strings.Join(items, ",") + ")", "other", nil
}

// rString quotes a string for R, which has no NUL bytes.
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
