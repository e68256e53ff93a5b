package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		for _, v := range []string{`null`, `true`, `0`, `-1.5e300`, `"text \u0000 ä 𝄞"`, `[]`, `{}`, `{"a":[1,{"b":null}],"":false}`,
			`123456789012345678901234567890`} {
			if err := s.Set(t.Context(), "v", json.RawMessage(v)); err != nil {
				t.Fatalf("set %s: %v", v, err)
			}
			got, err := s.Get(t.Context(), "v")
			if err != nil || !sameJSON(got, v) {
				t.Errorf("set %s, got %s %v", v, got, err)
			}
		}
		s.Set(t.Context(), "d", json.RawMessage(`{"k":[1,2]}`))
		if r := s.run("d['k'][1], type(d).__name__"); r.text() != "(2, 'dict')" {
			t.Errorf("got %s", r.text())
		}
		for _, key := range []string{"", "a b", "1a", "a.b", "class", "None", "a\n", "a=1;b", "ä\x00"} {
			if err := s.Set(t.Context(), key, json.RawMessage(`1`)); err == nil {
				t.Errorf("%q was set", key)
			}
		}
		if err := s.Set(t.Context(), "v", json.RawMessage(`{`)); err == nil {
			t.Error("Set accepts invalid JSON")
		}
		s.run(`import datetime, decimal, enum, pathlib, dataclasses, collections, uuid
class Color(enum.Enum): RED = 'red'
class Number(enum.IntEnum): ONE = 1
@dataclasses.dataclass
class Point: x: int; y: object
class Text(str):
    def __str__(self): return 'no'
big = 'x' * (61 << 20)
cycle = []; cycle.append(cycle)
deep = []
for i in range(5000): deep = [deep]`)
		for _, c := range []struct{ code, want string }{
			{"(1, 2)", `[1,2]`},
			{"{3}", `[3]`},
			{"range(2)", `[0,1]`},
			{"float('nan')", `null`},
			{"[float('inf'), 1.5]", `[null,1.5]`},
			{"{1: 2, None: 3, True: 4, (1, 2): 5, 2.5: 6}", `{"1":4,"null":3,"(1, 2)":5,"2.5":6}`},
			{"datetime.date(2024, 2, 29)", `"2024-02-29"`},
			{"datetime.datetime(2024, 2, 29, 1, 2, 3)", `"2024-02-29T01:02:03"`},
			{"decimal.Decimal('1.10')", `"1.10"`},
			{"Color.RED", `"red"`},
			{"[Number.ONE]", `[1]`},
			{"Point(1, [Point(2, None)])", `{"x":1,"y":[{"x":2,"y":null}]}`},
			{"pathlib.Path('/a')", `"/a"`},
			{"collections.OrderedDict(a=1)", `{"a":1}`},
			{"uuid.UUID(int=0)", `"00000000-0000-0000-0000-000000000000"`},
			{"Text('yes')", `"yes"`},
			{"b'bytes'", "error: get v: TypeError: bytes have no JSON form: encode them first, as with base64"},
			{"object()", "error: get v: TypeError: object has no JSON form"},
			{"1j", "error: get v: TypeError: complex has no JSON form"},
			{"cycle", "error: get v: ValueError: the value is nested more than 200 deep, or contains itself"},
			{"deep", "error: get v: ValueError: the value is nested more than 200 deep, or contains itself"},
			{"big", "error: get v: ValueError: the value takes 63963138 bytes as JSON"},
		} {
			s.run("v = " + c.code)
			got, err := s.Get(t.Context(), "v")
			if err != nil {
				if !strings.HasPrefix("error: "+err.Error(), c.want) {
					t.Errorf("%s: %v, want %s", c.code, err, c.want)
				}
			} else if !sameJSON(got, c.want) {
				t.Errorf("%s: got %.200s, want %s", c.code, got, c.want)
			}
		}
		if _, err := s.Get(t.Context(), "missing"); err == nil || !strings.Contains(err.Error(), "NameError: name 'missing' is not defined") {
			t.Errorf("got %v", err)
		}
	})
}

func sameJSON(a json.RawMessage, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, []byte(b)) == nil && decoded(x.Bytes()) == decoded(y.Bytes())
}

func decoded(b []byte) string {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	d.Decode(&v)
	text, _ := json.Marshal(v)
	return strings.Replace(string(text), "1.5e+300", "1.5e300", 1)
}

func TestVariables(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		if vars, err := s.Variables(t.Context()); err != nil || len(vars) > 0 {
			t.Errorf("a new session has %v %v", vars, err)
		}
		s.run(`import os
text = 'a' * 10_000_000
data = b'12'
numbers = list(range(1_000_000))
table = {i: [i] * 100 for i in range(1000)}
one = (1,)
huge = 10 ** 100_000
_hidden = 1
class Bad:
    def __repr__(self): raise ValueError
    def __len__(self): raise ValueError
bad = Bad()
def f(): pass`)
		vars, err := s.Variables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, v := range vars {
			if len(v.Text) > 200 {
				t.Errorf("%s: a text of %d bytes", v.Name, len(v.Text))
			}
			fmt.Fprintf(&got, "%s %s %.12s %d %s\n", v.Name, v.Type, v.Text, v.Size, v.Unit)
		}
		want := `Bad type <class '__ma 0 
bad Bad <Bad, whose  0 
data bytes b'12' 2 bytes
f function <function f  0 
huge int an int of 33 0 
numbers list [0, 1, 2, 3, 1000000 elements
one tuple (1,) 1 elements
os module <module 'os' 0 
table dict {0: [0, 0, 0 1000 elements
text str 'aaaaaaaaaaa 10000000 characters
`
		if got.String() != want {
			t.Errorf("got\n%swant\n%s", got.String(), want)
		}
	})
}
