package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// FuzzBeside writes a value between characters of escapes, and splits the text: neighbouring text must not hide it.
func FuzzBeside(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		v := pick(r, `abcdefnrtuxUX0123456789\\%%"&;=+ _-/.{}<'é£€🔑`, 6+r.IntN(14))
		if v = strings.TrimSpace(v); len(redactableParts([]byte(v))) == 0 {
			return
		}
		text := pick(r, `\\\%%"'&#;xunUa4210 {=`+"\n\t", r.IntN(8)) + v + pick(r, `\\%"'&#;xu01 `+"\n", r.IntN(6))
		if r.IntN(2) == 0 {
			text = strings.Repeat("long text ", 3) + text
		}
		got, _ := inChunks(t, lease(t, v), text, r)
		if strings.Contains(got, v) || !strings.Contains(got, Mark) {
			t.Fatalf("value %q in %q: %q", v, text, got)
		}
	})
}

// FuzzEncodedBeside does the same with encodings that a preceding escape does not damage.
func FuzzEncodedBeside(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 4))
		v := pick(r, `abcdefnrtuxUX0123456789\\%%"&;=+ _-/.{}<'é£€🔑`, 6+r.IntN(14))
		if v = strings.TrimSpace(v); len(redactableParts([]byte(v))) == 0 {
			return
		}
		inJSON, _ := json.Marshal(v)
		encoded := []string{string(inJSON), url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)),
			base64.StdEncoding.EncodeToString([]byte(v)), base64.URLEncoding.EncodeToString([]byte(v))}[r.IntN(6)]
		text := pick(r, `"' ,:;=`, r.IntN(4)) + encoded + pick(r, `"' ,:;`, r.IntN(4))
		got, _ := inChunks(t, lease(t, v), text, r)
		if !strings.Contains(got, Mark) {
			t.Fatalf("value %q in %q: %q", v, text, got)
		}
	})
}

// pick returns n random characters of from.
func pick(r *rand.Rand, from string, n int) string {
	var b strings.Builder
	for range n {
		all := []rune(from)
		b.WriteRune(all[r.IntN(len(all))])
	}
	return b.String()
}

// TestLoneSurrogate writes text that may be half of a character, and then endless backslashes: it must not be held
// back.
func TestLoneSurrogate(t *testing.T) {
	var out bytes.Buffer
	w := lease(t, "correct-horse").Writer(&out)
	w.Write([]byte(`\ud83d`))
	for range 100 {
		w.Write(bytes.Repeat([]byte{'\\'}, 100))
	}
	if held := len(w.text().scan.rest); held > 4*maxSlashes {
		t.Errorf("%d bytes wait for the other half", held)
	}
}
