package operation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

type named struct {
	Name string `json:"name" about:"A name." range:"..64"`
}

var (
	testPut = Route[named, string]{Pattern: "PUT /things", Name: "put_thing", Content: Tar}
	testGet = Route[named, string]{Pattern: "GET /things", Name: "get_thing", Content: Tar}
)

// answers has a server that answers by h.
func answers(t *testing.T, h http.HandlerFunc) *Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Server{HTTP: s.Client(), URL: s.URL, Failed: func(int, []byte) error { return errors.New("refused") }}
}

// TestReceive: content that is cut off, changed, or without its hash is an error, wherever it ends.
func TestReceive(t *testing.T) {
	text := strings.Repeat("content ", 1<<12)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		ok     bool
	}{
		"whole": {func(w http.ResponseWriter, r *http.Request) { SendContent(w, Tar, strings.NewReader(text)) }, true},
		"empty": {func(w http.ResponseWriter, r *http.Request) { SendContent(w, Tar, strings.NewReader("")) }, true},
		"fails": {func(w http.ResponseWriter, r *http.Request) {
			SendContent(w, Tar, io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("gone"))))
		}, false},
		"no hash": {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) }, false},
		"another hash": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", digestName)
			io.WriteString(w, text)
			w.Header().Set(digestName, digestOf(make([]byte, 32)))
		}, false},
		"a hash of its own before": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(digestName, "sha-256=:x:")
			io.WriteString(w, text)
		}, false},
	} {
		kind, content, err := testGet.Receive(t.Context(), answers(t, tt.answer), named{"a"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(content)
		content.Close()
		if (err == nil) != tt.ok || tt.ok && kind != Tar || name == "whole" && string(got) != text {
			t.Errorf("%s: %d bytes of %q, %v", name, len(got), kind, err)
		}
	}
}

// TestSend: a server knows the hash of content once it has read it, and of content that is cut off none.
func TestSend(t *testing.T) {
	text := bytes.Repeat([]byte("content "), 1<<12)
	var got []byte
	var failed error
	var sum, path string
	s := answers(t, func(w http.ResponseWriter, r *http.Request) {
		q, err := testPut.Arguments(r)
		if err != nil {
			t.Error(err)
		}
		sent, ok := SentDigest(r)
		if got, failed = io.ReadAll(r.Body); !ok || r.Header.Get("Content-Type") != Tar {
			t.Error(r.Header)
		}
		sum, path = sent(), q.Name
		door.Reply(w, http.StatusOK, "done")
	})
	answer, err := testPut.Send(t.Context(), s, named{"a b/&c"}, bytes.NewReader(text))
	whole := sha256.Sum256(text)
	if want := hex.EncodeToString(whole[:]); err != nil || answer != "done" || !bytes.Equal(got, text) || failed != nil || sum != want ||
		path != "a b/&c" {
		t.Errorf("%q %v: %d bytes, %v, %s, %q", answer, err, len(got), failed, sum, path)
	}
	broken := errors.New("the disk is gone")
	_, err = testPut.Send(t.Context(), s, named{"a"}, io.MultiReader(bytes.NewReader(text), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("content that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := testPut.Send(ctx, s, named{"a"}, bytes.NewReader(text)); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that leaves: %v", err)
	}
}

// TestSent: a hash that is no hash is one of no content.
func TestSent(t *testing.T) {
	for header, want := range map[string]bool{"": true, "sha-256=:x:": false, "md5=:AAAA:": false,
		"sha-512=:AAAA:, " + digestOf(make([]byte, 32)): true} {
		r := httptest.NewRequest("PUT", "/", nil)
		if header != "" {
			r.Header.Set(digestName, header)
		}
		if _, ok := SentDigest(r); ok != want {
			t.Errorf("%q: %v", header, ok)
		}
	}
	r := httptest.NewRequest("PUT", "/", nil)
	r.Trailer = http.Header{digestName: {"nothing"}}
	if sum, ok := SentDigest(r); !ok || len(sum()) == 64 || sum() == "" {
		t.Errorf("a trailer that is none: %q %v", sum(), ok)
	}
}

func TestIsTar(t *testing.T) {
	for kind, want := range map[string]bool{Tar: true, "Application/X-Tar": true, Tar + "; charset=binary": true, Tar + "s": false,
		Binary: false, "": false, ";": false} {
		if got := IsTar(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q: got %t", kind, got)
		}
	}
}
