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
	var b strings.Builder
	err := rTree(&b, d)
	return b.String(), err
}

// rTree writes the next value of d. It keeps the order of an object's names.
func rTree(b *strings.Builder, d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return rArray(b, d)
		}
		return rObject(b, d)
	case nil:
		b.WriteString("NULL")
	default:
		b.WriteString(rAtom(t))
	}
	return nil
}

func rAtom(t json.Token) string {
	switch t := t.(type) {
	case bool:
		return strings.ToUpper(strconv.FormatBool(t))
	case json.Number:
		if _, err := strconv.ParseInt(t.String(), 10, 32); err == nil && t != "-2147483648" {
			return t.String() + "L"
		}
		return t.String()
	case string:
		return rString(t)
	}
	return "NA"
}

func rArray(b *strings.Builder, d *json.Decoder) error {
	var items []string
	kinds := map[string]bool{}
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		item, err := rValue(raw)
		if err != nil {
			return err
		}
		kinds[rKind(raw[0])] = true
		items = append(items, item)
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	nulls := kinds["null"]
	delete(kinds, "null")
	call := "list("
	if len(kinds) == 1 && !kinds["other"] {
		call = "c("
		for i, item := range items {
			if nulls && item == "NULL" {
				items[i] = "NA"
			}
		}
	}
	b.WriteString(call + strings.Join(items, ",") + ")")
	return nil
}

// rKind classifies values by their first byte: those of one kind may form a vector.
func rKind(first byte) string {
	switch first {
	case 'n':
		return "null"
	case 't', 'f':
		return "bool"
	case '"':
		return "string"
	case '[', '{':
		return "other"
	}
	return "number"
}

func rObject(b *strings.Builder, d *json.Decoder) error {
	var names []string
	b.WriteString("structure(list(")
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if len(names) > 0 {
			b.WriteByte(',')
		}
		names = append(names, rAtom(name))
		if err := rTree(b, d); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		names = []string{"character()"}
	}
	b.WriteString("),names=c(" + strings.Join(names, ",") + "))")
	_, err := d.Token()
	return err
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
