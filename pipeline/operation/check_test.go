package operation

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// lang is a type with values, and other spellings of them.
type lang string

func (lang) Values() []string { return []string{"node", "shell", "r"} }
func (lang) Spellings() map[string]string {
	return map[string]string{"javascript": "node", "bash": "shell"}
}

type inner struct {
	X int `json:"x,omitempty" about:"A number." range:"1..3"`
}

type everything struct {
	S     string            `json:"s,omitempty" about:"Text." range:"..5"`
	N     float64           `json:"n,omitempty" about:"A number." range:"0..100"`
	I     *int              `json:"i,omitempty" about:"A whole number." range:"-5..5"`
	U     uint64            `json:"u,omitempty"`
	B     bool              `json:"b,omitempty" about:"Yes or no."`
	L     []string          `json:"l,omitempty" about:"A list." range:"..2" each:"One." eachrange:"..3"`
	O     map[string]string `json:"o,omitempty" about:"Any names." such:"A"`
	In    inner             `json:"in,omitzero"`
	Lang  lang              `json:"language,omitempty"`
	Only  lang              `json:"only,omitempty" oneof:"node"`
	Env   map[string]Text   `json:"env,omitempty"`
	Any   json.RawMessage   `json:"any,omitempty"`
	Usual int               `json:"usual,omitempty" range:"1..9" default:"7"`
	Own   string            `json:"-"`
}

func TestLenientArguments(t *testing.T) {
	f := FormOf[everything]()
	for _, test := range []struct{ sent, want string }{
		{``, `{}`},
		{`null`, `{}`},
		{`{"s":null,"n":null}`, `{}`},
		{`{"n":"30"}`, `{"n":30}`},
		{`{"n":" 2.5 ","i":"-3"}`, `{"n":2.5,"i":-3}`},
		{`{"i":3.0,"u":"4"}`, `{"i":3,"u":4}`},
		{`{"i":0}`, `{"i":0}`},
		{`{"b":"true"}`, `{"b":true}`},
		{`{"b":"False"}`, `{}`},
		{`{"l":"[\"a\",\"b\"]"}`, `{"l":["a","b"]}`},
		{`{"o":"{\"a\":\"b\"}"}`, `{"o":{"a":"b"}}`},
		{`{"in":{"x":"2"}}`, `{"in":{"x":2}}`},
		{`{"language":"JavaScript","only":"JavaScript"}`, `{"language":"node","only":"node"}`},
		{`{"language":" Bash "}`, `{"language":"shell"}`},
		{`{"language":"R"}`, `{"language":"r"}`},
		{`"{\"s\":\"a\"}"`, `{"s":"a"}`},
		{`{"env":{"A":1,"B":"2","C":-1.50}}`, `{"env":{"A":"1","B":"2","C":"-1.50"}}`},
		{`{"any":null}`, `{"any":null}`},
		{`{"usual":"9"}`, `{"usual":9}`},
	} {
		got, err := f.Check(json.RawMessage(test.sent))
		if err != nil {
			t.Errorf("%s: %v", test.sent, err)
			continue
		}
		if e := got.(*everything); !strings.Contains(test.sent, "usual") {
			if e.Usual != 7 {
				t.Errorf("%s: got %d for what is left out", test.sent, e.Usual)
			}
			e.Usual = 0
		}
		if b, err := json.Marshal(got); err != nil || string(b) != test.want {
			t.Errorf("%s: got %s, %v; want %s", test.sent, b, err, test.want)
		}
	}
}

// TestWrongArguments: each error names the argument's place, and the expected value.
func TestWrongArguments(t *testing.T) {
	f := FormOf[everything]()
	for sent, want := range map[string]string{
		`{"s":"abcdef"}`:      `argument "s": has 6 characters, the maximum is 5`,
		`{"s":5}`:             `argument "s": must be a string, not 5`,
		`{"n":101}`:           `argument "n": 101 is out of range: it must be a number from 0 to 100`,
		`{"i":1.5}`:           `argument "i": must be a whole number from -5 to 5, not 1.5`,
		`{"u":-1}`:            `argument "u": -1 is out of range: it must not be negative`,
		`{"b":1}`:             `argument "b": must be true or false, not 1`,
		`{"l":["a","b","c"]}`: `argument "l": has 3 entries: it must be a list of 0 to 2 entries, such as ["..."]`,
		`{"l":["abcd"]}`:      `argument "l": entry 1: has 4 characters, the maximum is 3`,
		`{"in":{"x":4}}`:      `argument "in.x": 4 is out of range: it must be a whole number from 1 to 3`,
		`{"in":{"y":4}}`:      `unknown argument "in.y": choose from x`,
		`{"language":"nod"}`:  `argument "language": "nod" is not allowed: did you mean "node"? It must be one of node, shell, r`,
		`{"only":"shell"}`:    `argument "only": "shell" is not allowed: it must be one of node`,
		`{"Own":"x"}`:         `unknown argument "Own": choose from s, n, i, u, b, l, o, in, language, only, env, any, usual`,
		`{"languag":"node"}`:  `unknown argument "languag": did you mean "language"?`,
		`[]`:                  `the arguments must be an object, such as {"s": "..."}`,
		`{"n":1e999}`:         `argument "n": must be a number from 0 to 100, not 1e999`,
		`{"usual":0}`:         `argument "usual": 0 is out of range: it must be a whole number from 1 to 9`,
		`{"s":"abcdef","n":"x"}`: "argument \"s\": has 6 characters, the maximum is 5\nargument \"n\": must be a number from 0 to 100, not " +
			"the string \"x\"",
	} {
		if got, err := f.Check(json.RawMessage(sent)); err == nil || err.Error() != want {
			t.Errorf("%s: got %+v, %v; want %s", sent, got, err, want)
		}
	}
}

// Arguments that are too many are refused before they take more memory than they have bytes.
func TestManyEntries(t *testing.T) {
	f := FormOf[everything]()
	for name, around := range map[string][2]string{"arguments": {`{`, `}`}, "a list": {`{"l":[`, `]}`}, "names": {`{"o":{`, `}}`},
		"members": {`{"in":{`, `}}`}, "a list as text": {`{"l":"[`, `]"}`}} {
		entry := `"a":1,`
		if strings.HasPrefix(name, "a list") {
			entry = `1,`
		}
		text := around[0] + strings.TrimSuffix(strings.Repeat(entry, 4<<20/len(entry)), ",") + around[1]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := f.Check(json.RawMessage(text))
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; err == nil || taken > 8*uint64(len(text)) {
			t.Errorf("%s: %d MB for %d MB: %.200v", name, taken>>20, len(text)>>20, err)
		}
	}
}

// FuzzCheck: an accepted value fits the form again, and no other value is accepted.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"n":"30","l":"[1]","in":{"x":2},"env":{"A":1},"any":[null]}`))
	form := FormOf[everything]()
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := form.Check(raw)
		if err != nil {
			if got != nil || err.Error() == "" {
				t.Errorf("%q: got %v, %v", raw, got, err)
			}
			return
		}
		b, err := json.Marshal(got)
		if err == nil {
			_, err = form.Check(b)
		}
		if err != nil {
			t.Errorf("%q became %s: %v", raw, b, err)
		}
	})
}
