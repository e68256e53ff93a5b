package vault

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// randomLines returns n values of size random letters, with a line break after every line letters.
func randomLines(n, size, line int) []string {
	r := rand.New(rand.NewPCG(11, 12))
	values := make([]string, n)
	for i := range values {
		v := make([]byte, size)
		for j := range v {
			v[j] = alphabet[r.IntN(62)]
			if line > 0 && j%line == line-1 {
				v[j] = '\n'
			}
		}
		values[i] = string(v)
	}
	return values
}

// TestCommonFormsOfManySecrets: the most common encodings of each of three hundred secrets are found.
func TestCommonFormsOfManySecrets(t *testing.T) {
	values := randomLines(350, 30, 0)
	l := lease(t, values...)
	for _, name := range []string{"raw", "json", "json in json", "hex escapes", "percent", "double percent", "entities", "hex entities",
		"octal escapes", "quoted-printable", "hex", "HEX", "hex colons", "hex blanks", "hex 0x", "base64", "base64 at 1", "base64 at 2",
		"base64url", "mime", "base32", "base64 twice", "base64 of hex", "utf-16", "decimal list", "binary", "reversed", "rot13",
		"blanks", "dashes", "one a line"} {
		for _, v := range []string{values[0], values[299], values[349]} {
			if text := encoders()[name](v); !strings.Contains(l.Redact(text), Mark) {
				t.Errorf("%s: %s is not found", name, text)
			}
		}
	}
}

// TestMemoryOfForms: the memory of the patterns is bounded for any leased values.
func TestMemoryOfForms(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for name, c := range map[string]struct {
		values []string
		maxMB  int // MB
	}{
		"ten secrets":        {randomLines(10, 40, 0), 1},
		"a hundred":          {randomLines(100, 40, 0), 8},
		"a hundred of 64 KB": {randomLines(100, 64<<10, 0), 80},
		"lines of 16 bytes":  {randomLines(100, 64<<10, 17), 100},
	} {
		before := heap()
		l := lease(t, c.values...)
		l.Redact("text")
		if got := (heap() - before) >> 20; got > c.maxMB {
			t.Errorf("%s: %d MB, want at most %d", name, got, c.maxMB)
		} else {
			t.Log(name, fmt.Sprint(got), "MB")
		}
		last := c.values[len(c.values)-1]
		if got := l.Redact("<" + last + ">"); got != "<"+strings.TrimSpace(last)+">" && !strings.HasPrefix(got, "<"+Mark) {
			t.Errorf("%s: the last is not found: %.100q", name, got)
		}
		l.Close()
	}
}
