package identity

import (
	"context"
	"testing"
)

// An identity that was put together badly is nobody, as the namespace of an agent that has none would be any.
func TestFrom(t *testing.T) {
	for name, tt := range map[string]struct {
		id   Identity
		want bool
	}{
		"zero":                    {Identity{}, false},
		"agent":                   {Identity{Name: "ci", Kind: Agent, Namespaces: []string{"a"}}, true},
		"agent without namespace": {Identity{Name: "ci", Kind: Agent}, false},
		"person":                  {Identity{Name: "ada", Kind: Person}, true},
		"no kind":                 {Identity{Name: "ada", Namespaces: []string{"a"}}, false},
		"no name":                 {Identity{Kind: Person}, false},
	} {
		if got, ok := From(With(context.Background(), tt.id)); ok != tt.want || got.Name != tt.id.Name {
			t.Errorf("%s: got %+v, %v", name, got, ok)
		}
	}
	if _, ok := From(context.Background()); ok {
		t.Error("an empty context has an identity")
	}
}

func TestMay(t *testing.T) {
	for name, tt := range map[string]struct {
		id        Identity
		namespace string
		want      bool
	}{
		"nobody":                         {Identity{}, "a", false},
		"agent in its own":               {Identity{Kind: Agent, Namespaces: []string{"a", "b"}}, "b", true},
		"agent in another":               {Identity{Kind: Agent, Namespaces: []string{"a"}}, "ab", false},
		"agent that has none":            {Identity{Kind: Agent}, "a", false},
		"agent without a namespace":      {Identity{Kind: Agent, Namespaces: []string{"a"}}, "", false},
		"person anywhere":                {Identity{Kind: Person}, "a", true},
		"person who is limited":          {Identity{Kind: Person, Namespaces: []string{"a"}}, "b", false},
		"person who is limited, at home": {Identity{Kind: Person, Namespaces: []string{"a"}}, "a", true},
	} {
		if got := tt.id.May(tt.namespace); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
