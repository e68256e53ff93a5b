package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// nothings are values that are no list of names, as JSON.
var nothings = []string{`null`, `[]`, `{}`, `""`, `" "`, `7`, `0`, `true`, `false`, `"*"`, `["*"]`, `"a"`, `"a b"`, `"all"`, `{"a":true}`,
	`[""]`, `[null]`, `[7]`, `[["a"]]`, `[{}]`,
	`["a",""]`, `["a",null]`, `["a",7]`, `["a","*"]`, `["*","*"]`, `["a","a"]`, `["../a"]`}

// TestNothingIsNone: whatever stands where the namespaces of a JWT do, or nothing, is no namespace, for people as for
// agents.
func TestNothingIsNone(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	i := newIssuer(t, public("k", key))
	with := func(value string, person bool) []string {
		more := claims{"namespaces": json.RawMessage(value)}
		if value == "" {
			more["namespaces"] = nil // which claims leaves out
		}
		if person {
			more["scope"] = "mcp mcp:person"
		}
		return bearer(signed(t, jose.EdDSA, key, kid("k"), i.claims(more)))
	}
	for _, value := range append(nothings, "") {
		for _, person := range []bool{false, true} {
			wantStatus(t, value, request(i.checker(), with(value, person)...), 403)
		}
	}
	for all, value := range map[string]string{"*": `"*"`, "everything": `["everything"]`} {
		c := i.checker()
		c.cfg.OAuth.All = all
		w := request(c, with(value, true)...)
		if wantStatus(t, value, w, 200); !strings.Contains(w.Body.String(), "person [*]") {
			t.Errorf("%s: got %s", value, w.Body)
		}
		wantStatus(t, "an agent's "+value, request(c, with(value, false)...), 403)
		wantStatus(t, "beside another", request(c, with(`["a",`+strings.Trim(value, "[]")+`]`, true)...), 403)
		for _, nothing := range append(nothings, "") {
			if strings.Trim(nothing, "[]") != strings.Trim(value, "[]") {
				wantStatus(t, all+", "+nothing, request(c, with(nothing, true)...), 403)
			}
		}
	}
}

// TestNothingInStore: a store in which a person's or an agent's namespaces are something else is damaged, and takes
// nobody.
func TestNothingInStore(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, Token{Name: "ada", Kind: Person, Namespaces: All()})
	whole, err := os.ReadFile(s.path())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Version int              `json:"version"`
		Tokens  []map[string]any `json:"tokens"`
	}
	if err := json.Unmarshal(whole, &file); err != nil {
		t.Fatal(err)
	}
	one := file.Tokens[0]
	for _, value := range append(nothings, "") {
		if value == `["*"]` {
			continue // which is all, explicitly
		}
		one["namespaces"] = json.RawMessage(value)
		if value == "" {
			delete(one, "namespaces")
		}
		if err := writeFile(s.path(), string(must(json.Marshal(file)))); err != nil {
			t.Fatal(err)
		}
		if i, err := quick(s.dir).Verify(t.Context(), token); err == nil {
			t.Errorf("%s: it takes %+v", value, i)
		}
	}
}
