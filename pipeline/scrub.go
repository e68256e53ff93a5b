package pipeline

import (
	"fmt"
	"reflect"
)

// Values of the tag "redact": they say how [Redactor.Scrub] treats the field and its children. Without a tag, Clean
// removes secrets from each string.
const (
	scrubNothing = "-"     // ids, hashes and constants, which others compare, and streams that were redacted before they were cut
	scrubCut     = "cut"   // by CleanCut
	scrubBrief   = "brief" // by CleanBrief
)

// Scrub removes secrets from all text of the result, before it is signed.
func (r *Run) Scrub() { r.Redactor.Scrub(&r.Outcome) }

// Scrub removes secrets from each string reachable from the pointer x: it walks all exported fields, so that none can
// be forgotten. It replaces slices, maps and pointers by copies, because others may share them.
func (v Redactor) Scrub(x any) { v.scrubValue(reflect.ValueOf(x).Elem(), "") }

func (v Redactor) scrubValue(x reflect.Value, how string) {
	switch x.Kind() {
	case reflect.String:
		x.SetString(v.cleanBy(how, x.String()))
	case reflect.Struct:
		for i := range x.NumField() {
			if field := x.Field(i); !field.IsZero() {
				v.scrubField(x.Type().Field(i), field, how)
			}
		}
	case reflect.Pointer:
		if !x.IsNil() {
			own := reflect.New(x.Type().Elem())
			own.Elem().Set(x.Elem())
			v.scrubValue(own.Elem(), how)
			x.Set(own)
		}
	case reflect.Array:
		for i := range x.Len() {
			v.scrubValue(x.Index(i), how)
		}
	case reflect.Slice:
		v.scrubSlice(x, how)
	case reflect.Map:
		v.scrubMap(x, how)
	case reflect.Interface:
		v.scrubInterface(x, how)
	}
}

// scrubField scrubs an exported or embedded field; embedded ones expose their fields, whatever their own name.
func (v Redactor) scrubField(f reflect.StructField, field reflect.Value, how string) {
	if !f.IsExported() && !f.Anonymous {
		return
	}
	if tag, has := f.Tag.Lookup("redact"); has {
		how = tag
	}
	if how != scrubNothing {
		v.scrubValue(field, how)
	}
}

func (v Redactor) cleanBy(how, text string) string {
	switch {
	case text == "":
		return ""
	case how == scrubCut:
		return v.CleanCut(text)
	case how == scrubBrief:
		return v.CleanBrief(text)
	}
	return v.Clean(text)
}

func (v Redactor) scrubSlice(x reflect.Value, how string) {
	if x.IsNil() {
		return
	}
	if x.Type().Elem().Kind() == reflect.Uint8 {
		x.SetBytes([]byte(v.cleanBy(how, string(x.Bytes()))))
		return
	}
	own := reflect.MakeSlice(x.Type(), x.Len(), x.Len())
	reflect.Copy(own, x)
	for i := range own.Len() {
		v.scrubValue(own.Index(i), how)
	}
	x.Set(own)
}

func (v Redactor) scrubMap(x reflect.Value, how string) {
	if x.IsNil() {
		return
	}
	own := reflect.MakeMapWithSize(x.Type(), x.Len())
	for key, value := range x.Seq2() {
		k, e := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
		k.Set(key)
		e.Set(value)
		v.scrubValue(k, "") // drivers don't cut keys
		v.scrubValue(e, how)
		own.SetMapIndex(k, e)
	}
	x.Set(own)
}

// scrubInterface replaces the value in an interface. A value with fields that can't be walked, such as an error,
// becomes its text.
func (v Redactor) scrubInterface(x reflect.Value, how string) {
	if x.IsNil() {
		return
	}
	if !canWalk(x.Elem().Type()) {
		x.Set(reflect.ValueOf(v.cleanBy(how, fmt.Sprint(x.Interface()))))
		return
	}
	own := reflect.New(x.Elem().Type()).Elem()
	own.Set(x.Elem())
	v.scrubValue(own, how)
	x.Set(own)
}

// canWalk reports whether scrubValue reaches all parts of a value of this type.
func canWalk(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return t.Kind() != reflect.Pointer && t.Kind() != reflect.Func && t.Kind() != reflect.Chan
	}
	for f := range t.Fields() {
		if !f.IsExported() {
			return false
		}
	}
	return true
}
