package vault

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestVariable(t *testing.T) {
	for _, c := range []struct{ namespace, key, want string }{
		{"default", "DB_URL", "SANDBOXMCP_SECRET_DEFAULT_DB_URL"},
		{"default", "token", "SANDBOXMCP_SECRET_DEFAULT_token"},
		{"team-a", "DB_URL", "SANDBOXMCP_SECRET_TEAM_A__DB_URL"},
		{"7", "K", "SANDBOXMCP_SECRET_7_K"},
	} {
		if got, err := Variable(c.namespace, c.key); got != c.want || err != nil {
			t.Errorf("Variable(%q, %q) = %q, %v, want %q", c.namespace, c.key, got, err, c.want)
		}
	}
}

// TestNamespacesAreWalls: no two secrets have the same variable: all namespaces and keys over a few letters are
// tried.
func TestNamespacesAreWalls(t *testing.T) {
	owner := map[string]string{}
	var words func(prefix, letters string, n int, f func(string))
	words = func(prefix, letters string, n int, f func(string)) {
		f(prefix)
		for i := 0; n > 0 && i < len(letters); i++ {
			words(prefix+letters[i:i+1], letters, n-1, f)
		}
	}
	words("", "aA-_.", 4, func(namespace string) {
		words("", "aA_", 5, func(key string) {
			name, err := Variable(namespace, key)
			if err != nil {
				return
			}
			if other, taken := owner[name]; taken {
				t.Errorf("%s is %s and %s/%s", name, other, namespace, key)
			}
			owner[name] = namespace + "/" + key
		})
	})
	if len(owner) < 1000 {
		t.Errorf("only %d names are allowed", len(owner))
	}
}

func TestWithoutSecrets(t *testing.T) {
	in := []string{"SANDBOXMCP_SECRET_A_B=1", "PATH=/SANDBOXMCP_SECRET_", "sandboxmcp_secret_a_b=1", "SANDBOXMCP_SECRETS=1", "=C:=x",
		"SANDBOXMCP_SECRET_=1"}
	before := slices.Clone(in)
	if got, want := WithoutSecrets(in), []string{in[1], in[3], in[4]}; !slices.Equal(got, want) || !slices.Equal(in, before) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnvironment(t *testing.T) {
	const value = "the value of team-a"
	t.Setenv("SANDBOXMCP_SECRET_TEAM_A__KEY", value)
	t.Setenv("SANDBOXMCP_SECRET_TEAM_EMPTY", "")
	v := New(Environment())
	for namespace, keys := range map[string][]string{
		"team": {"A__KEY", "_A__KEY", "A_KEY", "EMPTY"}, "team_a": {"KEY", "_KEY"}, "TEAM-A": {"KEY"}, "team.a": {"KEY"},
		"team-a-": {"KEY"}, "team-": {"A__KEY"}, "team--a": {"KEY"}, "-team-a": {"KEY"},
	} {
		for _, key := range keys {
			if l, err := v.Lease(context.Background(), namespace, []string{key}); err == nil {
				t.Errorf("%s/%s has %d secrets of team-a", namespace, key, len(l.Names()))
			} else if strings.Contains(err.Error(), value) {
				t.Errorf("%s/%s: %v", namespace, key, err)
			}
		}
	}
	l, err := v.Lease(context.Background(), "team-a", []string{"KEY"})
	if err != nil {
		t.Fatal(err)
	}
	check(t, l, "<"+value+">", "<"+Mark+">")
	l.Close()
}

func TestErrorSaysWhatToDo(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name           string
		v              *Vault
		namespace, key string
		found          bool // the error is not ErrNotFound
		says           []string
	}{
		{"no variable", New(NewMemory(), Environment()), "team-a", "DB_URL", false,
			[]string{"DB_URL", "team-a", "set the environment variable SANDBOXMCP_SECRET_TEAM_A__DB_URL"}},
		{"memory alone", New(NewMemory()), "a", "DB_URL", false, []string{"DB_URL", "not in the vault"}},
		{"no store", New(), "a", "DB_URL", false, []string{"DB_URL", "no store"}},
		{"nil vault", nil, "a", "DB_URL", false, []string{"DB_URL", "no store"}},
		{"bad key", New(Environment()), "a", "DB-URL", true, []string{"byte 3", "letters, digits and _"}},
		{"key with a value", New(Environment()), "a", "A=b", true, []string{"without ="}},
		{"no key", New(Environment()), "a", "", true, []string{"no name"}},
		{"digit", New(Environment()), "a", "1A", true, []string{"digit"}},
		{"rune", New(Environment()), "a", "KÄ", true, []string{"byte 2"}},
		{"rune that ends like a letter", New(Environment()), "a", "KŁ", true, []string{"byte 2"}},
		{"bad namespace", New(Environment()), "a b", "A", true, []string{`"a b"`, "namespace"}},
		{"dots", New(Environment()), "..", "A", true, []string{`".."`, "namespace"}},
		{"namespace that shares variables", New(Environment()), "a_b", "A", false, []string{"a_b", "lower-case"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.v.Lease(ctx, c.namespace, []string{c.key})
			if err == nil || errors.Is(err, ErrNotFound) == c.found {
				t.Fatalf("got %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}

func TestValuesThatCanNotBeLeased(t *testing.T) {
	m := NewMemory()
	for _, v := range []string{"", "a\x00b", strings.Repeat("x", MaxValue+1)} {
		if err := m.Set("a", "KEY", []byte(v)); err == nil || !strings.Contains(err.Error(), "KEY") {
			t.Errorf("%.10q: %v", v, err)
		}
	}
}

func TestMemoryCopies(t *testing.T) {
	m, value := NewMemory(), []byte("first")
	m.Set("a", "KEY", value)
	copy(value, "other")
	got, _, _ := m.Get(context.Background(), "a", "KEY")
	copy(got, "other")
	m.Set("b", "KEY", []byte("of b"))
	if got, _, err := m.Get(context.Background(), "a", "KEY"); string(got) != "first" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, _, err := m.Get(context.Background(), "c", "KEY"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
