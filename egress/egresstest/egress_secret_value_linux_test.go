package egresstest

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bound is the name to which these tests bind secrets.
const bound = "exact.example"

// newValue returns a new value for a secret, with characters that some encodings escape.
func newValue() string {
	b := make([]byte, 12)
	rand.Read(b)
	return "sk_" + hex.EncodeToString(b) + "/+Q=" + hex.EncodeToString(b[:3]) + "Zz"
}

// bind puts a secret into the vault, with the flags of vault add.
func (w *world) bind(t *testing.T, who, key, value string, flags ...string) {
	t.Helper()
	cmd := w.onHost(who, append([]string{w.program, "vault", "add", key, "--stdin", "--replace"}, flags...)...)
	cmd.Stdin = strings.NewReader(value)
	if out, errs, err := w.runAndLog(cmd); err != nil {
		t.Fatalf("vault add %s: %v: %s%s", key, err, out, errs)
	}
}

// spellings returns the encodings in which a value may appear.
func spellings(v string) map[string]string {
	all := map[string]string{
		"as it is": v, "hex": hex.EncodeToString([]byte(v)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(v))),
		"page": strings.ReplaceAll(v, "+", "&#43;"), "address": url.QueryEscape(url.QueryEscape(v)),
		"cut": v[:len(v)-1], "percent": percent(v, "%%%02X"), "small percent": percent(v, "%%%02x"), "small": strings.ToLower(v),
		"query": url.QueryEscape(v), "path": url.PathEscape(v), "unicode": percent(v, `\u%04x`), "slashes": strings.ReplaceAll(v, "/", `\/`),
	}
	for i, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for at := range 3 {
			text := enc.EncodeToString([]byte("ab"[:at%3] + v))
			// The first and the last characters also encode the text beside the value.
			all[fmt.Sprintf("base64 %d %d", i, at)] = text[2 : len(text)-2]
		}
	}
	return all
}

func percent(v, format string) string {
	var b strings.Builder
	for _, c := range []byte(v) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// mask is combined with the needles, so that the searching program does not contain them.
const mask = 0x5a

// needles writes a file by which programs inside can search for the value without having it.
func (w *world) needles(value string) string {
	masked := map[string]string{}
	for name, s := range spellings(value) {
		b := []byte(s)
		for i := range b {
			b[i] ^= mask
		}
		masked[name] = hex.EncodeToString(b)
	}
	text, _ := json.Marshal(masked)
	return w.write("needles.json", string(text))
}

// clean checks that text contains a value in no encoding.
func clean(t *testing.T, where, text, value string) {
	t.Helper()
	for name, s := range spellings(value) {
		if i := strings.Index(text, s); i >= 0 {
			t.Errorf("%s has the value (%s): ...%.120q", where, name, text[max(0, i-60):i])
		}
	}
}

// cleanState checks all of sandboxmcp's files, including sealed ones.
func (w *world) cleanState(t *testing.T, who, value string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(w.dir, "home"+who), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		clean(t, filepath.Base(path), string(text), value)
		if bytes.Contains(text, []byte("CERTIFICATE")) || bytes.Contains(text, []byte("sandboxmcp run CA")) {
			t.Errorf("%s has a certificate", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

// cleanRun checks everything that is left of a run.
func (w *world) cleanRun(t *testing.T, who string, r result, value string) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, "the result", string(text)+r.Stdout+r.Stderr, value)
	log, errs, err := w.runAndLog(w.onHost(who, w.program, "audit", "--format", "json"))
	if err != nil || log == "" {
		t.Errorf("audit: %v: %s", err, errs)
	}
	clean(t, "the log", log, value)
	w.cleanState(t, who, value)
}
