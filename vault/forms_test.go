package vault

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// many returns values of so many random letters, of which every so many are a line.
func many(n, size, line int) []string {
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

// The commonest forms are found of each of three hundred secrets.
func TestCommonFormsOfManySecrets(t *testing.T) {
	values := many(350, 30, 0)
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

// Whatever is leased, its patterns in memory are bounded.
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
		"ten secrets":        {many(10, 40, 0), 1},
		"a hundred":          {many(100, 40, 0), 8},
		"a hundred of 64 KB": {many(100, 64<<10, 0), 80},
		"lines of 16 bytes":  {many(100, 64<<10, 17), 100},
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

// A number is found with its digits apart, or in groups.
func TestDigitsApart(t *testing.T) {
	const pin, card, twoDigits = "73059182", "7305918264407193", "4111111111111111"
	for _, sep := range []string{" ", "-", ".", ", ", "\n", "\r\n", "', '", " | ", "\t"} {
		for _, v := range []string{pin, card, twoDigits} {
			checkLeft(t, lease(t, v), "<"+fold(v, 1, sep)+">", 1+len(sep+"<>")) // the first is not held back
		}
		for _, v := range []string{card, twoDigits} {
			for width := 2; width < len(v); width++ {
				checkLeft(t, lease(t, v), "<"+fold(v, width, sep)+">", len("<>"))
			}
		}
	}
	for _, number := range []string{"7305 9182 6440 7193", "7305-9182-6440-7193"} {
		for _, text := range []string{number, card, fold(card, 1, " "), fold(card, 6, "-")} {
			checkLeft(t, lease(t, number), "<"+text+">", len("7-<>"))
		}
	}
}

// Digits apart are mostly numbers of something.
func TestDigitsApartThatAreNoSecret(t *testing.T) {
	for v, text := range map[string]string{
		"12345678":      "[1, 2, 3, 4, 5, 6, 7, 8]",
		"1234567891011": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12",
		"9876543210":    "9 8 7 6 5 4 3 2 1 0",
		"10987654321":   "10... 9... 8... 7... 6... 5... 4... 3... 2... 1...",
		"01201120":      "[0 1 2 0 1 1 2 0]",
		"00110101120":   "0, 0, 1, 1, 0, 1, 0, 1, 1, 2, 0",
		"73059182":      "73 05 91 82", // of these there are too many for eight digits to tell
	} {
		check(t, lease(t, v), text, text)
		check(t, lease(t, v), "<"+v+">", "<"+Mark+">")
	}
	r := rand.New(rand.NewPCG(13, 14))
	var values []string
	for i := range 60 {
		v := make([]byte, 8+i%9)
		for j := range v {
			v[j] = '0' + byte(r.IntN(10))
		}
		values = append(values, string(v))
	}
	l := lease(t, values...)
	for name, text := range ordinary(t) {
		if got := l.Redact(text); got != text {
			i := strings.Index(got, Mark)
			t.Errorf("%s was changed near %q", name, got[max(0, i-40):min(len(got), i+60)])
		}
	}
}
