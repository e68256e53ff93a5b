package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// fill puts text into every string that x leads to: fields, elements of slices and maps, keys, and values of pointers
// and interfaces.
func fill(x reflect.Value, text string) {
	switch x.Kind() {
	case reflect.String:
		x.SetString("before " + text + " after")
	case reflect.Struct:
		for f, field := range x.Fields() {
			if f.IsExported() || f.Anonymous {
				fill(field, text)
			}
		}
	case reflect.Pointer:
		x.Set(reflect.New(x.Type().Elem()))
		fill(x.Elem(), text)
	case reflect.Slice:
		if x.Type() == reflect.TypeFor[remedy.Text]() {
			x.Set(reflect.ValueOf(remedy.Text{"do " + text, remedy.Raise.With(text), errors.New(text), 7}))
			return
		}
		if x.Type().Elem().Kind() == reflect.Uint8 {
			x.SetBytes([]byte(text))
			return
		}
		x.Set(reflect.MakeSlice(x.Type(), 2, 2))
		for i := range 2 {
			fill(x.Index(i), text)
		}
	case reflect.Map:
		x.Set(reflect.MakeMap(x.Type()))
		k, e := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
		fill(k, text)
		fill(e, text)
		x.SetMapIndex(k, e)
	case reflect.Interface:
		x.Set(reflect.ValueOf(text))
	case reflect.Array, reflect.Func, reflect.Chan:
		panic("fill does not know " + x.Type().String())
	}
}

// holders returns the paths of the strings that hold text.
func holders(x reflect.Value, path, text string) (all []string) {
	switch x.Kind() {
	case reflect.Struct:
		for f, field := range x.Fields() {
			if f.IsExported() || f.Anonymous {
				all = append(all, holders(field, path+"."+f.Name, text)...)
			}
		}
		return all
	case reflect.Pointer, reflect.Interface:
		return holders(x.Elem(), path, text)
	case reflect.Slice:
		if x.Type().Elem().Kind() != reflect.Uint8 {
			for i := range x.Len() {
				all = append(all, holders(x.Index(i), path, text)...)
			}
			return all
		}
	case reflect.Map:
		for k, e := range x.Seq2() {
			all = append(append(all, holders(k, path+" key", text)...), holders(e, path, text)...)
		}
		return all
	}
	if x.IsValid() && strings.Contains(fmt.Sprintf("%s", x.Interface()), text) {
		all = append(all, path)
	}
	return all
}

type inner struct{ Text string }

// TestScrubEmbedded: fields that a struct has from one without an exported name are told as its own.
func TestScrubEmbedded(t *testing.T) {
	x := struct {
		inner
		At   time.Time
		Raw  json.RawMessage
		Any  any
		None *inner
	}{inner{"a token"}, time.Unix(1, 0), json.RawMessage(`{"a":"token"}`), []any{inner{"a token"}, time.Unix(1, 0).UTC()}, nil}
	memory := vault.NewMemory()
	memory.Set("default", "KEY", []byte("a token"))
	lease, err := vault.New(memory).Lease(t.Context(), "default", []string{"KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	pipeline.Redactor{Leases: vault.Leases{lease}, Tokens: &pipeline.TokenFinder{}}.Scrub(&x)
	if x.Text != vault.Mark || !x.At.Equal(time.Unix(1, 0)) || string(x.Raw) != `{"a":"token"}` {
		t.Errorf("got %+v", x)
	}
	if got := fmt.Sprint(x.Any); got != "[{"+vault.Mark+"} 1970-01-01 00:00:01 +0000 UTC]" {
		t.Errorf("got %s", got)
	}
}

// TestScrubForgetsNothing: a secret in any field of a result, even a field that is added later, is removed, except for
// the fields here, which hold ids, hashes, words of ours, or text that was redacted before.
func TestScrubForgetsNothing(t *testing.T) {
	const secret = "s3cr3t-" + "of-the-test"
	memory := vault.NewMemory()
	memory.Set("default", "KEY", []byte(secret))
	lease, err := vault.New(memory).Lease(t.Context(), "default", []string{"KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	r := &pipeline.Run{Redactor: pipeline.Redactor{Leases: vault.Leases{lease}, Tokens: &pipeline.TokenFinder{}}}
	fill(reflect.ValueOf(&r.Outcome).Elem(), secret)
	before := holders(reflect.ValueOf(r.Outcome), "", secret)
	shared := r.Outcome
	r.Scrub()
	left := slices.Compact(holders(reflect.ValueOf(r.Outcome), "", secret))
	want := []string{".ID", ".Namespace", ".Backend", ".Profile", ".End.Ended", ".End.Signal", ".End.Limit", ".Interrupted", ".Output.Stdout",
		".Output.Stderr",
		".Packages.Hash", ".Manifest.Artifacts.SHA256", ".Layers.Name", ".Receipt"}
	if !slices.Equal(left, want) {
		t.Errorf("the secret is left in %q,\nwant %q", left, want)
	}
	if len(before) < 40 || slices.Contains(left, ".Hints") {
		t.Errorf("only %d places held the secret: %q", len(before), before)
	}
	for _, path := range []string{".Refused.Remedy", ".Displayed.Value key", ".Displayed.Displays", ".Displayed.Error.Traceback",
		".Layers.Detail", ".Displayed.StateLost", ".Hints", ".Egress.Decision.Reason"} {
		if !slices.Contains(before, path) {
			t.Errorf("%s was not filled: %q", path, before)
		}
	}
	if after := holders(reflect.ValueOf(shared), "", secret); len(after) < len(before)-16 { // but for its own strings
		t.Errorf("what others share was changed: %d places of %d", len(after), len(before))
	}
	if r.Outcome.Error.Message != "before "+vault.Mark+" after" {
		t.Errorf("got %q", r.Outcome.Error.Message)
	}
}
