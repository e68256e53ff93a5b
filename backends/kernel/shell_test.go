package kernel

import (
	"runtime"
	"strings"
	"testing"
)

func TestShellRequest(t *testing.T) {
	for _, c := range []struct {
		name string
		q    request
		want string // of the request, or in the error
	}{
		{"cell", request{Op: "run", ID: 7, Code: "echo ü", Mark: "m", Env: map[string]string{"B": "2", "A": ""}}, "run 7 m 7 2 3\necho üA=B=2"},
		{"empty cell", request{Op: "run", ID: 7, Mark: "m"}, "run 7 m 0\n"},
		{"many commands", request{Op: "run", ID: 7, Mark: "m", Code: strings.Repeat(":;", 5001)}, "lines 7 m 10002\n"},
		{"set", request{Op: "set", ID: 8, Key: "k", Value: []byte(`"a\nb"`)}, "set 8 - 1 3 6\nka\nb\"a\\nb\""},
		{"get", request{Op: "get", ID: 9, Key: "k"}, "get 9 - 1\nk"},
		{"vars", request{Op: "vars", ID: 10}, "vars 10 -\n"},
		{"NUL in code", request{Op: "run", ID: 7, Code: "a\x00"}, "NUL byte"},
		{"NUL in a value", request{Op: "set", ID: 7, Key: "k", Value: []byte(`"\u0000"`)}, "NUL byte"},
		{"IFS", request{Op: "set", ID: 7, Key: "IFS", Value: []byte(`","`)}, "IFS"},
		{"too large", request{Op: "run", ID: 7, Code: strings.Repeat("a", maxFrame+1)}, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := shellCodec{}.encode(c.q)
			if err != nil {
				got = []byte(err.Error())
			}
			if err == nil && !strings.HasPrefix(string(got), c.want) || err != nil && !strings.Contains(string(got), c.want) {
				t.Errorf("got %.100q, want %q", got, c.want)
			}
		})
	}
}

func TestShellReplyRefused(t *testing.T) {
	for _, body := range []string{
		"", "\x00", "done\x00", "done\x00x\x00ok\x00", "done\x001\x00what\x00", "ready\x00", "run\x001\x00ok\x00",
		"done\x001\x00run\x00many\x00", "done\x001\x00vars\x00a\x00b\x00", "done\x001\x00vars\x00a\x00b\x00c\x00d\x00e\x00",
		"done\x001\x00error\x00", "done\x001\x00json\x00{\x00",
	} {
		if r, err := (shellCodec{}).decode([]byte(body)); err == nil {
			t.Errorf("%q: got %+v", body, r)
		}
	}
}

func FuzzShellReply(f *testing.F) {
	for _, body := range []string{
		"ready\x005.2.15\x00", "done\x001\x00run\x007\x00", "done\x001\x00run\x00\x00T\x00m\x00t\x00text/plain\x00v\x00",
		"done\x001\x00list\x00a\x00\x00", "done\x001\x00map\x00k\x00", "done\x001\x00vars\x00a\x00b\x00c\x003\x00e\x00",
		"display\x001\x00image/png\x00AA\x00",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := shellCodec{}.decode(body)
		if err == nil && r.Op != "ready" && r.Op != "done" && r.Op != "display" {
			t.Errorf("%q is %+v", body, r)
		}
	})
}

func TestRValue(t *testing.T) {
	for value, want := range map[string]string{
		`null`: `NULL`, `[]`: `list()`, `[null]`: `list(NULL)`, `[1,null,2.5]`: `c(1L,NA,2.5)`, `["NULL",null]`: `c("NULL",NA)`,
		`[[1,2],[3]]`:                  `list(c(1L,2L),c(3L))`,
		`[null,{"a":[true,null]},"b"]`: `list(NULL,structure(list(c(TRUE,NA)),names=c("a")),"b")`, `{}`: `structure(list(),names=c(character()))`,
		`{"a":1,"b":[null,"c"]}`: `structure(list(1L,c(NA,"c")),names=c("a","b"))`, `[-2147483648,1]`: `c(-2147483648,1L)`,
	} {
		if code, err := rValue([]byte(value)); code != want || err != nil {
			t.Errorf("%s became %s, %v", value, code, err)
		}
	}
}

// TestRValueDeep checks that a nested value is not copied once per level.
func TestRValueDeep(t *testing.T) {
	const size, depth = 64 << 10, 1000
	for _, level := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		value := []byte(strings.Repeat(level[0], depth) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(level[1], depth))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := rValue(value)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 32*size || err != nil {
			t.Errorf("%d levels of %s around %d bytes took %d bytes, %v", depth, level[0], size, n, err)
		}
	}
}

func FuzzRValue(f *testing.F) {
	for _, value := range []string{`1`, `"a\"\\ü"`, `[1,null]`, `["a",1]`, `{"a":{"b":[]}}`, `[true]`, `-2147483648`} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		code, err := rValue([]byte(value))
		if err == nil && strings.ContainsAny(code, "\x00\n") {
			t.Errorf("%q became %q", value, code)
		}
	})
}
