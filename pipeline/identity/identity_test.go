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
		"agent":                   {Identity{Name: "ci", Kind: Agent, Namespaces: Only("a")}, true},
		"agent without namespace": {Identity{Name: "ci", Kind: Agent}, false},
		"person":                  {Identity{Name: "ada", Kind: Person, Namespaces: All()}, true},
		"person without any":      {Identity{Name: "ada", Kind: Person}, false},
		"person of an empty list": {Identity{Name: "ada", Kind: Person, Namespaces: Only()}, false},
		"agent of all":            {Identity{Name: "ci", Kind: Agent, Namespaces: All()}, false},
		"no kind":                 {Identity{Name: "ada", Namespaces: Only("a")}, false},
		"no name":                 {Identity{Kind: Person, Namespaces: All()}, false},
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
		"agent in its own":               {Identity{Kind: Agent, Namespaces: Only("a", "b")}, "b", true},
		"agent in another":               {Identity{Kind: Agent, Namespaces: Only("a")}, "ab", false},
		"agent that has none":            {Identity{Kind: Agent}, "a", false},
		"agent without a namespace":      {Identity{Kind: Agent, Namespaces: Only("a")}, "", false},
		"person anywhere":                {Identity{Kind: Person, Namespaces: All()}, "a", true},
		"person who has none":            {Identity{Kind: Person}, "a", false},
		"person who has none, nowhere":   {Identity{Kind: Person}, "", false},
		"agent of all":                   {Identity{Kind: Agent, Namespaces: All()}, "a", false},
		"all without a kind":             {Identity{Namespaces: All()}, "a", false},
		"person who is limited":          {Identity{Kind: Person, Namespaces: Only("a")}, "b", false},
		"person who is limited, at home": {Identity{Kind: Person, Namespaces: Only("a")}, "a", true},
	} {
		if got := tt.id.May(tt.namespace); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
