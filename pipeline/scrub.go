package pipeline

import (
	"fmt"
	"reflect"
)

// Values of the tag "redact" of a field say how the walk of [redactor.scrub] goes on below it. Without one, clean
// removes secrets from each string.
const (
	scrubNothing = "-"     // ids, hashes and words of ours, which others compare, and streams that were cleaned before they were cut
	scrubCut     = "cut"   // by cleanCut
	scrubBrief   = "brief" // by cleanBrief
)

// Scrub removes secrets from all text of the result, before it is signed.
func (r *Run) Scrub() { r.Redactor.Scrub(&r.Outcome) }

// Scrub removes secrets from each string that x leads to, a pointer to a value: it walks all fields that others see, so
// that none can be forgotten. What others may share, slices, maps and what pointers lead to, it replaces by copies.
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

// scrubField scrubs a field that others see: what is embedded shows its fields, whatever its own name.
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
		v.scrubValue(k, "") // no driver cuts keys
		v.scrubValue(e, how)
		own.SetMapIndex(k, e)
	}
	x.Set(own)
}

// scrubInterface replaces a value that an interface holds. One with fields that can't be walked, such as an error,
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

// canWalk reports whether scrubValue reaches all of a value of this type.
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
