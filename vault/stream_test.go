package vault

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestNothingIsDelayedWithoutNeed(t *testing.T) {
	l := lease(t, "hunter2-hunter2", "hunter2-hunter2-and-more", "Enter the house")
	for name, c := range map[string]struct{ in, out string }{
		"prompt":                           {"Password: ", "Password: "},
		"prompt that begins as a value":    {"Enter the key: ", "Enter the key: "},
		"last letter of a prompt":          {"Enter th#", "Enter th#"},
		"progress":                         {"\r 42%\r 43% ", "\r 42%\r 43% "},
		"line":                             {"ok known\n", "ok known\n"},
		"line that ends as a value begins": {"watch\n", "watch\n"},
		"json line":                        {`{"text":"\u4e2d\u00e9"}`, `{"text":"\u4e2d\u00e9"}`},
		"beginning of a value":             {"say hunter2-", "say "},
		"whole value":                      {"say hunter2-hunter2", "say " + Mark},
		"value that may grow":              {"say hunter2-hunter2-and", "say " + Mark},
		"value that did not grow":          {"say hunter2-hunter2-and so!", "say " + Mark + "-and so!"},
		"base64 before its padding":        {"say aHVudGVyMi1odW50ZXIy", "say " + Mark},
		"last byte may be an escape":       {"about %", "about "},
		"no unicode escape of a value":     {`say \u00`, "say "},
		"too far for a unicode escape":     {`say \u01.`, `say \u01.`},
	} {
		for n := 1; n <= len(c.in); n++ {
			var out bytes.Buffer
			w := l.Writer(&out)
			for p := range slices.Chunk([]byte(c.in), n) {
				w.Write(p)
			}
			if got := out.String(); got != c.out {
				t.Errorf("%s: %q in pieces of %d shows %q, want %q", name, c.in, n, got, c.out)
			}
		}
	}
}

// TestMessagesGoOutWhole: streams pause between messages. The end of a message is sent before the pause, however
// many secrets there are.
func TestMessagesGoOutWhole(t *testing.T) {
	l := lease(t, append(randomSecrets(), "data: "+"secret", "\n\n"+"secret", "{\"secret"+"\": 1}")...)
	for name, message := range map[string]string{
		"server-sent event": "event: message\ndata: {\"delta\":\"the \"}\n\n",
		"its end":           "data: [DONE]\r\n\r\n",
		"a line of JSON":    "{\"delta\":\"aHVudGVy\"}\n",
		"a comment":         ": keep-alive\n\n",
		"JSON-RPC":          "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
		"a length and text": "\x00\x00\x00\x00\x05\x0a\x03abc.",
	} {
		var out bytes.Buffer
		w := l.Writer(&out)
		for i := range 3 {
			io.WriteString(w, message)
			if got, want := out.String(), strings.Repeat(message, i+1); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}

// TestHoldsNoMoreThanTheBeginning: each beginning of each encoding is held back, and released by the first byte
// that does not match.
func TestHoldsNoMoreThanTheBeginning(t *testing.T) {
	const value = "a+b/c d\"e\\\U0001F511é?"
	l := lease(t, value)
	for _, s := range []string{value, percent(value, "%%%02x"), `a+b/c d\"e\\\ud83d\udd11\u00e9?`,
		percent(value, "%02X"), base64.StdEncoding.EncodeToString([]byte(value))} {
		for n := 1; n < len(s); n++ {
			var out bytes.Buffer
			w := l.Writer(&out)
			io.WriteString(w, "#"+s[:n])
			if got := out.String(); got != "#" && got != "#"+Mark {
				t.Errorf("after %q: %q is out", s[:n], got)
			}
			held := out.String() == "#"
			io.WriteString(w, "QQQQ~#")
			if want := "#" + s[:n] + "QQQQ~#"; held && out.String() != want {
				t.Errorf("then: got %q, want %q", out.String(), want)
			}
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	value := strings.Repeat("ab+/c", 20)
	l := lease(t, value)
	w := l.Writer(io.Discard)
	line := base64.StdEncoding.EncodeToString([]byte(value + value))[1:]
	bound := 10 * len(value) * 4 / 3 // ten bytes a symbol, four symbols of base64 for three bytes
	for i := range 20_000 {
		io.WriteString(w, []string{"\n", "\r\n", "\\", "%2", line[:90], value[:99], "\\n", "%"}[i*7919%8])
		text := w.text()
		if len(text.held) > bound || len(text.scan.found) > bound || len(text.scan.all.live)+len(text.scan.letters.live) > 10*bound {
			t.Fatalf("holds %d bytes, %d spans and %d threads; the bound is %d",
				len(text.held), len(text.scan.found), len(text.scan.all.live), bound)
		}
	}
}

func TestOverlap(t *testing.T) {
	l := lease(t, "abcdefgh", "efghijkl", "abcdefghijklmnop", "cdefgh")
	check(t, l, "abcdefghijkl", Mark)
	check(t, l, "1abcdefghijklmnop2", "1"+Mark+"2")
	check(t, l, "1abcdefghijklmno2", "1"+Mark+"mno2")
	check(t, l, "abcdefghabcdefgh", Mark+Mark)
	check(t, l, "abcabcdefgabcdefgh", "abcabcdefg"+Mark)
	l = lease(t, "abcdefghijkl", "defghi")
	check(t, l, "abcdefghijkl", Mark)
	check(t, l, "abcdefghijk!", "abc"+Mark+"jk!")
	check(t, lease(t, "abcabcabc"), "xabcabcabcabcabcy", "x"+Mark+"y")
}

func TestUnchanged(t *testing.T) {
	values := randomSecrets()
	l := lease(t, values...)
	for name, text := range texts(values) {
		if strings.Contains(name, "secret") {
			continue
		}
		for _, n := range []int{1, 3, 4096, len(text)} {
			part := string(text[:min(len(text), 30_000*n)])
			if got := stream(t, l, part, n); got != part {
				t.Errorf("%s in pieces of %d was changed", name, n)
			}
		}
	}
}

func TestWriterFails(t *testing.T) {
	l := lease(t, "hunter2-hunter2")
	broken := errors.New("broken")
	w := l.Writer(writerFunc(func([]byte) (int, error) { return 0, broken }))
	if _, err := w.Write([]byte("text")); err != broken {
		t.Errorf("Write: %v", err)
	}
	if err := w.Close(); err != broken {
		t.Errorf("Close: %v", err)
	}
	w = l.Writer(writerFunc(func(p []byte) (int, error) { return len(p) - 1, nil }))
	if _, err := w.Write([]byte("text")); err != io.ErrShortWrite {
		t.Errorf("short write: %v", err)
	}
	w = l.Writer(io.Discard)
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := w.Write([]byte("text")); err == nil {
		t.Error("Write after Close works")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestFindReadsToTheEnd(t *testing.T) {
	l := lease(t, "hunter2-hunter2")
	pad := strings.Repeat("x", 64<<10-7) // the value spans two reads
	for text, want := range map[string]bool{"": false, pad + "hunter2-hunter2": true, pad + "hunter2-hunter": false} {
		if got, err := l.ContainsSecret(strings.NewReader(text)); got != want || err != nil {
			t.Errorf("Find in %d bytes = %v, %v, want %v", len(text), got, err, want)
		}
	}
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("text"), readerFunc(func([]byte) (int, error) { return 0, broken }))
	if _, err := l.ContainsSecret(r); err != broken {
		t.Errorf("Find: %v, want the error of the reader", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestAmbiguousEscapes: in a text full of possible values or escapes, the number of matcher states must not double;
// otherwise the scan would never end.
func TestAmbiguousEscapes(t *testing.T) {
	for unit, end := range map[string]string{`\\a\b`: "", "%25%2525": "", "0%30\\u0030": "", `\`: "end"} {
		value := strings.Repeat(unit, 25) + end
		l := lease(t, value)
		text := strings.Repeat(strings.Repeat(unit, hosttest.Rounds(500, 2000))+end, 2)
		if got := l.Redact(text); !strings.Contains(got, Mark) || strings.Contains(got, value) {
			t.Errorf("%q: %d bytes are left: %.100q", unit, len(got), got)
		}
	}
}

// TestRepetition: a value that overlaps itself repeatedly is split up, so that it does not take longer than others.
func TestRepetition(t *testing.T) {
	value := strings.Repeat("abc", 5000) + "the end"
	l := lease(t, value)
	l.Redact("text") // builds the index
	words := l.inner().matcher.all.words
	for _, w := range words {
		if len(w.symbols) > 2*pieceSize || len(words) > 40 {
			t.Fatalf("%d words, one of %d bytes", len(words), len(w.symbols))
		}
	}
	if got := l.Redact("<" + value + ">"); strings.Trim(strings.ReplaceAll(got, Mark, ""), "<>") != "" {
		t.Errorf("raw: %.100q is left", strings.ReplaceAll(got, Mark, ""))
	}
	for offset := range 3 {
		got := strings.ReplaceAll(l.Redact(spellBase64(value, offset)), Mark, "")
		if len(got) > 10 {
			t.Errorf("base64 at %d: %.100q is left", offset, got)
		}
	}
	l.Redact(strings.Repeat(value[:3000]+"x", 20))
}

func ExampleLease_Writer() {
	m := NewMemory()
	m.Set("default", "TOKEN", []byte("correct"+"-horse"))
	l, _ := New(m).Lease(context.Background(), "default", []string{"TOKEN"})
	defer l.Close()
	var out strings.Builder
	w := l.Writer(&out)
	fmt.Fprint(w, "the token is cor")
	fmt.Fprint(w, "rect-horse, or Y29ycmVjdC1ob3JzZQ==")
	w.Close()
	fmt.Println(out.String())
	// Output: the token is ***REDACTED***, or ***REDACTED***
}
