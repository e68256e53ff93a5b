package envd

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Messages are structs whose fields have a tag pb with the field number and a tag json with the ProtoJSON name. The
// two services need no more, and generated code would register its types at each start.

// timestamp is google.protobuf.Timestamp: a string in JSON, seconds and nanoseconds in protobuf.
type timestamp struct {
	Seconds int64 `pb:"1"`
	Nanos   int32 `pb:"2"`
}

func newTimestamp(t time.Time) *timestamp { return &timestamp{t.Unix(), int32(t.Nanosecond())} }

func (t timestamp) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Unix(t.Seconds, int64(t.Nanos)).UTC())
}

// enum is a value with a name in JSON.
type enum interface{ names() []string }

// marshalEnum returns the JSON of an enum.
func marshalEnum(e enum, v int32) ([]byte, error) {
	if names := e.names(); int(v) < len(names) && v >= 0 && names[v] != "" {
		return json.Marshal(names[v])
	}
	return json.Marshal(v)
}

// unmarshalEnum reads a name or a number.
func unmarshalEnum(e enum, text []byte, v *int32) error {
	var name string
	if json.Unmarshal(text, &name) != nil {
		return json.Unmarshal(text, v)
	}
	for i, n := range e.names() {
		if n == name && n != "" {
			*v = int32(i)
			return nil
		}
	}
	return fmt.Errorf("unknown value %.40q", name)
}

// field is one field of a message.
type field struct {
	number protowire.Number
	zigzag bool
	value  reflect.Value
}

// fields returns the fields of a message by their tags.
func fields(message reflect.Value) []field {
	var list []field
	for i := range message.NumField() {
		tag, kind, _ := strings.Cut(message.Type().Field(i).Tag.Get("pb"), ",")
		if n, err := strconv.Atoi(tag); err == nil {
			list = append(list, field{protowire.Number(n), kind == "zigzag", message.Field(i)})
		}
	}
	return list
}

// encode returns the protobuf encoding of a pointer to a message.
func encode(message any) []byte { return appendMessage(nil, reflect.ValueOf(message).Elem()) }

func appendMessage(b []byte, message reflect.Value) []byte {
	for _, f := range fields(message) {
		b = f.append(b, f.value, false)
	}
	return b
}

// append encodes a value. It omits zero values unless set.
func (f field) append(b []byte, v reflect.Value, set bool) []byte {
	number := func(n uint64) []byte {
		if n == 0 && !set {
			return b
		}
		return protowire.AppendVarint(protowire.AppendTag(b, f.number, protowire.VarintType), n)
	}
	bytes := func(content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, f.number, protowire.BytesType), content)
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return number(1)
		}
		return number(0)
	case reflect.Int32, reflect.Int64:
		if f.zigzag {
			return number(protowire.EncodeZigZag(v.Int()))
		}
		return number(uint64(v.Int()))
	case reflect.Uint32:
		return number(v.Uint())
	case reflect.String:
		if v.Len() > 0 || set {
			return bytes([]byte(v.String()))
		}
	case reflect.Struct:
		return bytes(appendMessage(nil, v))
	case reflect.Pointer:
		if !v.IsNil() {
			return f.append(b, v.Elem(), true)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.IsNil() {
				return b
			}
			return bytes(v.Bytes())
		}
		for i := range v.Len() {
			b = f.append(b, v.Index(i), true)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			entry := field{number: 1}.append(nil, key, true)
			entry = field{number: 2}.append(entry, v.MapIndex(key), true)
			b = protowire.AppendBytes(protowire.AppendTag(b, f.number, protowire.BytesType), entry)
		}
	}
	return b
}

var errWire = errors.New("malformed message")

// decode decodes protobuf into a pointer to a message. Unknown fields are ignored.
func decode(b []byte, message any) error { return decodeMessage(b, reflect.ValueOf(message).Elem(), 0) }

// maxNesting bounds nested messages, and maxRepeated the values of one field: each takes more memory than its two
// bytes.
const (
	maxNesting  = 8
	maxRepeated = 1 << 16
)

func decodeMessage(b []byte, message reflect.Value, depth int) error {
	if depth > maxNesting {
		return errWire
	}
	all := fields(message)
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return errWire
		}
		for _, f := range all {
			if f.number == number {
				if err := f.decodeValue(f.value, kind, b[:size], depth); err != nil {
					return err
				}
			}
		}
		b = b[size:]
	}
	return nil
}

// decodeValue decodes a value into v.
func (f field) decodeValue(v reflect.Value, kind protowire.Type, b []byte, depth int) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return f.decodeValue(v.Elem(), kind, b, depth)
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32:
		n, size := protowire.ConsumeVarint(b)
		if kind != protowire.VarintType || size < 0 {
			return errWire
		}
		switch {
		case v.Kind() == reflect.Bool:
			v.SetBool(n != 0)
		case v.Kind() == reflect.Uint32:
			v.SetUint(uint64(uint32(n)))
		case f.zigzag:
			v.SetInt(int64(int32(protowire.DecodeZigZag(n))))
		case v.Kind() == reflect.Int32:
			v.SetInt(int64(int32(n)))
		default:
			v.SetInt(int64(n))
		}
		return nil
	}
	content, size := protowire.ConsumeBytes(b)
	if kind != protowire.BytesType || size < 0 {
		return errWire
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(content))
	case reflect.Struct:
		return decodeMessage(content, v, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(append([]byte{}, content...))
			return nil
		}
		if v.Len() >= maxRepeated {
			return errWire
		}
		one := reflect.New(v.Type().Elem()).Elem()
		if err := f.decodeValue(one, kind, b, depth); err != nil {
			return err
		}
		v.Set(reflect.Append(v, one))
	case reflect.Map:
		var entry struct {
			Key   string `pb:"1"`
			Value string `pb:"2"`
		}
		if err := decodeMessage(content, reflect.ValueOf(&entry).Elem(), depth+1); err != nil {
			return err
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(entry.Key), reflect.ValueOf(entry.Value))
	}
	return nil
}
