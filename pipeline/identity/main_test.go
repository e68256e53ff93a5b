package identity

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// TestMain is another process that shares a store where createIn says so.
func TestMain(m *testing.M) {
	if dir := os.Getenv(createIn); dir != "" {
		createForever(dir, os.Getenv(createAs))
	}
	os.Exit(m.Run())
}

const createIn, createAs = "IDENTITY_TEST_DIR", "IDENTITY_TEST_NAME"

// createForever creates tokens, and says the name of each one on stdout once it is there.
func createForever(dir, name string) {
	t := quick(dir)
	for i := 0; ; i++ {
		spec := Token{Name: fmt.Sprint(name, i), Kind: Agent, Namespaces: Only("a")}
		if _, _, err := t.Create(context.Background(), spec, nil); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println(spec.Name)
	}
}

// creator starts another process that creates tokens.
func creator(t *testing.T, dir, name string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), createIn+"="+dir, createAs+"="+name)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// quick returns a store with a derivation that costs nothing, for tests of other things.
func quick(dir string) *Tokens {
	t := OpenTokens(dir)
	t.derive = func(token string, salt []byte) []byte {
		sum := sha256.Sum256(append([]byte(token), salt...))
		return sum[:]
	}
	return t
}

// counted counts the derivations of a store.
func counted(t *Tokens) *atomic.Int64 {
	var n atomic.Int64
	derive := t.derive
	t.derive = func(token string, salt []byte) []byte { n.Add(1); return derive(token, salt) }
	return &n
}

// create returns a new token.
func create(t *testing.T, s *Tokens, spec Token) string {
	t.Helper()
	token, _, err := s.Create(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

var agent = Token{Name: "ci", Kind: Agent, Namespaces: Only("a", "b")}

// wrongSecret returns a token of the same id with another secret, and a check that is right.
func wrongSecret(token string) string {
	other, _ := newToken(nil)
	return withID(other, token[len(tokenPrefix):][:idLength])
}

func withID(token, id string) string {
	body := tokenPrefix + id + token[len(tokenPrefix)+idLength:tokenLength-checkLength]
	return body + checkOf(body)
}

// request sends a request with these headers through the middleware, and returns the answer.
func request(c *Checker, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.RemoteAddr = "192.0.2.1:1234"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Remote" {
			r.RemoteAddr = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	return send(c, r)
}

func send(c *Checker, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, ok := From(r.Context())
		fmt.Fprintf(w, "%v %s %s %v %q", ok, i, i.Kind, i.Namespaces.List(), r.Header.Values("Authorization"))
	})).ServeHTTP(w, r)
	return w
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// wantStatus checks the status of an answer, and that it has nothing of a token.
func wantStatus(t *testing.T, name string, w *httptest.ResponseRecorder, want int) {
	t.Helper()
	if w.Code != want {
		t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, want)
	}
	if strings.Contains(w.Body.String(), tokenPrefix) {
		t.Errorf("%s: the answer has a token: %s", name, w.Body)
	}
}
