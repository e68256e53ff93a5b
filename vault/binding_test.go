package vault

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// leaseBound returns a lease of API_KEY, which is bound, and PLAIN, which is not.
func leaseBound(t *testing.T, value string, to Binding) *Lease {
	t.Helper()
	s := NewSealed(t.TempDir(), nil)
	for _, e := range []Entry{{Namespace: "a", Key: "API_KEY", Binding: to}, {Namespace: "a", Key: "PLAIN"}} {
		text := value
		if e.Key == "PLAIN" {
			text = "the plain one"
		}
		if err := s.Add(t.Context(), e, []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	l, err := New(NewMemory(), s).Lease(context.Background(), "a", []string{"API_KEY", "PLAIN"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestBound(t *testing.T) {
	value, to := "hunter2-"+"hunter2", Binding{Hosts: []string{"api.example.com", "*.example.org:8443"}, Require: true, Body: true}
	l := leaseBound(t, value, to)
	all := l.Bound()
	if len(all) != 1 || all[0].Name != "API_KEY" || all[0].Value() != value {
		t.Fatalf("got %d bound secrets", len(all))
	}
	b := all[0]
	if diff := cmp.Diff(to, b.Binding); diff != "" {
		t.Error(diff)
	}
	if !regexp.MustCompile(`^sandboxmcp_[a-z0-9_]{29,}$`).MatchString(b.Placeholder) {
		t.Errorf("placeholder %q", b.Placeholder)
	}
	if again := l.Bound()[0].Placeholder; again != b.Placeholder {
		t.Errorf("the placeholder was %q and is %q", b.Placeholder, again)
	}
	if diff := cmp.Diff([]string{"API_KEY=" + b.Placeholder, "PLAIN=the plain one"}, l.Env()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"API_KEY", "PLAIN"}, l.Names()); diff != "" {
		t.Error(diff)
	}
	check(t, l, "<"+value+"> "+b.Placeholder, "<"+Mark+"> "+b.Placeholder)
	check(t, l, spellBase64(value, 1), l.Redact(spellBase64(value, 1)))
	b.Hosts[0] = "evil.example"
	if got := l.Bound()[0].Hosts[0]; got != "api.example.com" {
		t.Errorf("a caller has changed the binding to %s", got)
	}
	l.Close()
	if b.Value() != "" || l.Bound()[0].Value() != "" {
		t.Error("a closed lease gives the value")
	}
}

// TestPlaceholdersAreFresh: each lease has another placeholder, so that one run can't use another's.
func TestPlaceholdersAreFresh(t *testing.T) {
	var seen []string
	for range 1000 {
		p := newPlaceholder()
		if slices.Contains(seen, p) {
			t.Fatalf("%s came twice", p)
		}
		seen = append(seen, p)
	}
	first, second := leaseBound(t, "hunter2-one", Binding{Hosts: []string{"a"}}), leaseBound(t, "hunter2-two", Binding{Hosts: []string{"b"}})
	all := Leases{first, nil, second}.Bound()
	if len(all) != 2 || all[0].Placeholder == all[1].Placeholder || all[0].Value() != "hunter2-one" || all[1].Value() != "hunter2-two" {
		t.Errorf("got %d bound secrets", len(all))
	}
	env := Leases{first, second}.Env([]string{"API_KEY"})
	if diff := cmp.Diff([]string{"API_KEY=" + all[0].Placeholder, "API_KEY=" + all[1].Placeholder}, env); diff != "" {
		t.Error(diff)
	}
	if (*Lease)(nil).Bound() != nil || lease(t, "hunter2").Bound() != nil {
		t.Error("what is not bound is")
	}
}

// TestBoundAndUnredacted: a short value is not redacted, but the program does not get it either.
func TestBoundAndUnredacted(t *testing.T) {
	l := leaseBound(t, "1234", Binding{Hosts: []string{"a.example"}})
	if got := l.Env()[0]; strings.Contains(got, "1234") {
		t.Errorf("got %s", got)
	}
	if diff := cmp.Diff([]string{"API_KEY"}, l.Unredacted()); diff != "" {
		t.Error(diff)
	}
}

// storeOf is a store with one secret.
type storeOf struct {
	value string
	to    Binding
}

func (s storeOf) Get(context.Context, string, string) ([]byte, Binding, error) {
	return []byte(s.value), s.to, nil
}

func TestBindingsThatCanNotBeMeant(t *testing.T) {
	one := []string{"a.example"}
	for name, c := range map[string]struct {
		value string
		to    Binding
		says  string
	}{
		"good":                    {"value", Binding{one, true, true}, ""},
		"require without hosts":   {"value", Binding{nil, true, false}, "without hosts"},
		"body without hosts":      {"value", Binding{nil, false, true}, "without hosts"},
		"empty host":              {"value", Binding{[]string{""}, false, false}, "not a host"},
		"blank":                   {"value", Binding{[]string{"a b"}, false, false}, "not a host"},
		"zero byte":               {"value", Binding{[]string{"a\x00b"}, false, false}, "not a host"},
		"long":                    {"value", Binding{[]string{strings.Repeat("a", maxHost+1)}, false, false}, "not a host"},
		"many":                    {"value", Binding{slices.Repeat(one, maxHosts+1), false, false}, "100"},
		"value that ends a line":  {"one\r\nX-Two: 2", Binding{one, false, false}, "line break"},
		"... may stand in a body": {"one\ntwo", Binding{one, false, true}, ""},
		"... or in no request":    {"one\ntwo", Binding{}, ""},
	} {
		_, leased := New(storeOf{c.value, c.to}).Lease(t.Context(), "a", []string{"KEY"})
		added := NewSealed(t.TempDir(), nil).Add(t.Context(), Entry{Namespace: "a", Key: "KEY", Binding: c.to}, []byte(c.value), false)
		for _, err := range []error{leased, added} {
			if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.value)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestMayBind(t *testing.T) {
	sealed := NewSealed(t.TempDir(), func(context.Context, Change) error { return nil })
	for name, tt := range map[string]struct {
		v    *Vault
		want bool
	}{
		"nil":              {nil, false},
		"those that can't": {New(NewMemory(), Environment()), false},
		"an empty one":     {New(sealed), false},
	} {
		if got := tt.v.MayBind(); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	if err := sealed.Add(t.Context(), Entry{Namespace: "default", Key: "A_KEY"}, []byte("a value of it"), false); err != nil {
		t.Fatal(err)
	}
	if !New(NewMemory(), sealed).MayBind() {
		t.Error("a sealed secret may be bound")
	}
}
