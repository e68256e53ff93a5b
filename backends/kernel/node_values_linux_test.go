package kernel

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestNodeBundles(t *testing.T) {
	cells := []struct {
		name, code string
		value      Bundle
		output     []Bundle
	}{
		{"data", "({ a: [1, 'x', null, true], b: { c: 1.5 } })", Bundle{"text/plain": "{ a: [ 1, 'x', null, true ], b: { c: 1.5 } }",
			"application/json": `{"a":[1,"x",null,true],"b":{"c":1.5}}`}, nil},
		{"BigInt", "({ a: 10n })", Bundle{"text/plain": "{ a: 10n }"}, nil},
		{"Map and Set", "[new Map([['k', new Set([1])]])]", Bundle{"text/plain": "[ Map(1) { 'k' => Set(1) { 1 } } ]"}, nil},
		{"cycle", "const o = {}; o.o = o; o", Bundle{"text/plain": "<ref *1> { o: [Circular *1] }"}, nil},
		{"class", "class P { x = 1 } new P()", Bundle{"text/plain": "P { x: 1 }"}, nil},
		{"depth", "({ a: { b: { c: { d: 1 } } } })", Bundle{"text/plain": "{ a: { b: { c: [Object] } } }",
			"application/json": `{"a":{"b":{"c":{"d":1}}}}`}, nil},
		{"getter", "({ get a() { return 1 } })", Bundle{"text/plain": "{ a: [Getter] }"}, nil},
		{"NaN", "[NaN]", Bundle{"text/plain": "[ NaN ]"}, nil},
		{"hole", "[1, , 2]", Bundle{"text/plain": "[ 1, <1 empty item>, 2 ]"}, nil},
		{"no colours", "[new Error('e').message, Symbol('s')]", Bundle{"text/plain": "[ 'e', Symbol(s) ]"}, nil},
		{"display", "display('t', { a: 1 }); display.html('<b>'); display.png(Buffer.from('x')); display({ 'text/html': '<i>', 'image/png': " +
			"Buffer.from('y') }); display(Buffer.from('89504e47', 'hex'))", nil, []Bundle{
			{"text/plain": "t"}, {"text/plain": "{ a: 1 }", "application/json": `{"a":1}`}, {"text/html": "<b>"}, {"image/png": "eA=="},
			{"text/html": "<i>", "image/png": "eQ=="}, {"image/png": "iVBORw=="},
		}},
		{"in order with output", "console.log(1); display(2); undefined", nil, []Bundle{{"text/plain": "2", "application/json": "2"}}},
		{"too large to show", "display.png(Buffer.alloc(20e6))", nil,
			[]Bundle{{"text/plain": "[image/png of 26666668 bytes left out: more than 16777216]"}}},
	}
	s := node(t)
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			r := s.run(c.code)
			if r.Error != nil {
				t.Fatal(r.Error)
			}
			if got, want := encoded(r.Value), encoded(c.value); got != want {
				t.Errorf("value %s, want %s", got, want)
			}
			if got, want := encoded(r.Displays), encoded(c.output); got != want {
				t.Errorf("shown %s, want %s", got, want)
			}
		})
	}
	t.Run("long", func(t *testing.T) {
		s.t = t
		r := s.run("'é'.repeat(1e6)")
		if got := r.text(); len(got) > 256<<10 || !strings.HasSuffix(got, "bytes in all]") && !strings.Contains(got, "more characters") ||
			r.Value["application/json"] != "" {
			t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-40:])
		}
	})
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestNodeVariables(t *testing.T) {
	s := node(t)
	s.run("const n = 1; let text = 'abc'; var list = [1, 2]; class C {}; function f() {}; globalThis.g = new Map([[1, 2]]); implicit = 2n; " +
		"const px = new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 } }); const e = { get x() { throw 3 } }; const _ = 'mine'")
	vars, err := s.Variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range vars {
		got = append(got, strings.TrimSpace(strings.Join([]string{v.Name, v.Type, v.Text, strconv.FormatInt(v.Size, 10), v.Unit}, " ")))
	}
	want := []string{
		"C class [class C] 0", "_ string 'mine' 4 characters", "e Object { x: [Getter] } 1 keys", "f function [Function: f] 0",
		"g Map Map(1) { 1 => 2 } 1 elements", "implicit bigint 2n 0", "list Array [ 1, 2 ] 2 elements", "n number 1 0",
		"px Proxy {} 0", "text string 'abc' 3 characters",
	}
	if encoded(got) != encoded(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNodeValues(t *testing.T) {
	s := node(t)
	s.run("const m = new Map([['a', 1]]), pairs = new Map([[1, [2n]]]), set = new Set([1]), day = new Date(0), bytes = Buffer.from('hi'), " +
		"floats = new Float32Array([1.5]), cycle = []; cycle.push(cycle); class P { x = 1; y = undefined }; const p = new P(), f = () => 1, deep = { a: [{ f }] }, nan = [NaN, , 1], loop = { toJSON() { for (;;); } }, nothing = undefined")
	for _, c := range []struct{ key, want string }{
		{"m", `{"a":1}`}, {"pairs", `[[1,["2"]]]`}, {"set", `[1]`}, {"day", `"1970-01-01T00:00:00.000Z"`}, {"bytes", `"aGk="`},
		{"floats", `[1.5]`}, {"p", `{"x":1}`}, {"nan", `[null,null,1]`}, {"nothing", `null`},
		{"cycle", "error: get cycle: Error: it[0] is a cycle, which JSON cannot hold"},
		{"f", "error: get f: Error: it is a function, which JSON cannot hold"},
		{"deep", "error: get deep: Error: it.a[0].f is a function, which JSON cannot hold"},
		{"nowhere", "error: get nowhere: Error: there is no variable nowhere"},
		{"a b", `error: get a b: Error: "a b" is not a variable name`},
	} {
		got, err := s.Get(t.Context(), c.key)
		text := string(got)
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != c.want {
			t.Errorf("%s: got %s, want %s", c.key, text, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := s.Get(ctx, "loop"); err == nil {
		t.Errorf("an endless toJSON gave %s", got)
	}
	for _, value := range []string{`{"a":[1,null,"é\u2028"],"__proto__":{"b":2}}`, `"x"`, `3`} {
		for _, key := range []string{"m", "fresh", "process"} {
			if err := s.Set(t.Context(), key, json.RawMessage(value)); err != nil {
				t.Fatalf("set %s: %v", key, err)
			}
			if r := s.run("JSON.stringify(" + key + ") === " + strconv.Quote(compact(value)) + " || JSON.stringify(" + key + ")"); r.text() != "true" {
				t.Errorf("%s is %s, want %s", key, r.text(), value)
			}
		}
	}
	if err := s.Set(t.Context(), "class", json.RawMessage("1")); err == nil {
		t.Error("class became a variable")
	}
}

func compact(text string) string {
	return strings.ReplaceAll(text, `\u2028`, "\u2028")
}

func TestNodeLarge(t *testing.T) {
	s := node(t)
	r := s.run("console.log('x'.repeat(8e6)); const big = 'y'.repeat(6e6); 1")
	if r.text() != "1" || len(r.Stdout) != 8e6+1 {
		t.Errorf("got %s and %d bytes", r.text(), len(r.Stdout))
	}
	if got, err := s.Get(t.Context(), "big"); err != nil || len(got) != 6e6+2 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if r := s.run("'" + strings.Repeat("z", 4e6) + "'.length"); r.text() != "4000000" {
		t.Errorf("got %.100s", r.text())
	}
	if r := s.run("for (let i = 0; i < 20000; i++) { console.log(i) } process.stdout.write(Buffer.from([0xff, 0, 0xfe]))"); !strings.HasSuffix(r.Stdout, "19999\n\xff\x00\xfe") {
		t.Errorf("the end is %q", r.Stdout[max(0, len(r.Stdout)-20):])
	}
}
