package witness

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func seeded(seed string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte(seed), ed25519.SeedSize))
}

var (
	logKey  = seeded("a")
	logKeys = []checkpoint.Key{{PublicKey: logKey.Public().(ed25519.PublicKey)}}
)

func open(t *testing.T, path string) *audit.Log {
	t.Helper()
	l, err := audit.OpenSigned(t.Context(), path, audit.Signing{Key: func(context.Context) (crypto.Signer, error) { return logKey, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func fill(t *testing.T, l *audit.Log, rows int) {
	t.Helper()
	for range rows {
		if _, err := l.Append(t.Context(), audit.Entry{Kind: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// save copies a state directory; restore puts it back.
func save(t *testing.T, path string) (restore func() string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	return func() string { return filepath.Join(dir, filepath.Base(path)) }
}

// cosigning is a witness according to C2SP tlog-witness.
type cosigning struct {
	*httptest.Server
	mu   sync.Mutex
	size int64
	root tlog.Hash
	asks int
	lie  func(w http.ResponseWriter, r *http.Request) bool // answers instead, if it returns true
}

const cosignerName = "witness.example"

var cosignerKey = seeded("w")

func cosignerText() string {
	key := append([]byte{cosignature}, cosignerKey.Public().(ed25519.PublicKey)...)
	sum := sha256.Sum256([]byte(cosignerName + "\n" + string(key)))
	return fmt.Sprintf("%s+%x+%s", cosignerName, sum[:4], base64.StdEncoding.EncodeToString(key))
}

func newWitness(t *testing.T) *cosigning {
	w := &cosigning{}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (s *cosigning) place(t *testing.T) Place { return place(t, s.URL+"/prefix#"+cosignerText()) }

func (s *cosigning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	if s.lie != nil && s.lie(w, r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	head, text, ok := strings.Cut(string(body), "\n\n")
	lines := strings.Split(head, "\n")
	var old int64
	if _, err := fmt.Sscanf(lines[0], "old %d", &old); err != nil || !ok || r.Method != http.MethodPost ||
		r.URL.Path != "/prefix/add-checkpoint" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	origin, _, _ := strings.Cut(text, "\n")
	vkey, _ := note.NewEd25519VerifierKey(origin, logKey.Public().(ed25519.PublicKey))
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		http.Error(w, "no log", http.StatusNotFound)
		return
	}
	n, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		http.Error(w, "no key", http.StatusForbidden)
		return
	}
	var size int64
	var root string
	fmt.Sscanf(strings.TrimPrefix(n.Text, origin+"\n"), "%d\n%s\n", &size, &root)
	hash, _ := tlog.ParseHash(root)
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			http.Error(w, "no hash", http.StatusBadRequest)
			return
		}
		proof = append(proof, h)
	}
	switch {
	case old > size:
		http.Error(w, "old", http.StatusBadRequest)
	case old != s.size:
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, "%d\n", s.size)
	case old == size && hash != s.root:
		http.Error(w, "another root", http.StatusConflict)
	case old == 0 && len(proof) > 0, old > 0 && old < size && tlog.CheckTree(proof, size, hash, old, s.root) != nil:
		http.Error(w, "no proof", http.StatusUnprocessableEntity)
	default:
		s.size, s.root = size, hash
		io.WriteString(w, cosign(n.Text, cosignerName, cosignerKey))
	}
}

func cosign(text, name string, key ed25519.PrivateKey) string {
	now := uint64(time.Now().Unix())
	sig := binary.BigEndian.AppendUint64(nil, now)
	sig = append(sig, ed25519.Sign(key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", now, text))...)
	public := append([]byte{cosignature}, key.Public().(ed25519.PublicKey)...)
	sum := sha256.Sum256([]byte(name + "\n" + string(public)))
	return fmt.Sprintf("— %s %s\n", name, base64.StdEncoding.EncodeToString(append(sum[:4:4], sig...)))
}

func place(t *testing.T, text string) Place {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func bareGit(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		hosttest.SkipMissing(t, "git", "nothing can be pushed to a remote")
	}
	dir := filepath.Join(t.TempDir(), "kept.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", dir).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return dir
}

// eachPlace runs a test with a fresh place of each kind.
func eachPlace(t *testing.T, f func(t *testing.T, p Place)) {
	t.Run("file", func(t *testing.T) { f(t, place(t, filepath.Join(t.TempDir(), "kept.note"))) })
	t.Run("git", func(t *testing.T) { f(t, place(t, "git:"+bareGit(t))) })
	t.Run("witness", func(t *testing.T) { f(t, newWitness(t).place(t)) })
}

func wantPush(t *testing.T, p Place, l Log, why string) []byte {
	t.Helper()
	signatures, err := p.Push(t.Context(), l, logKeys)
	if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
		t.Errorf("got %v, want %q", err, why)
	}
	return signatures
}

// TestPush: a growing log is pushed repeatedly, also after a rotation, and pushing the same twice is harmless.
func TestPush(t *testing.T) {
	eachPlace(t, func(t *testing.T, p Place) {
		l := open(t, filepath.Join(t.TempDir(), "log.db"))
		if _, ok, err := p.Stored(t.Context()); ok && err == nil {
			t.Error("a place that has nothing says nothing")
		}
		for _, rows := range []int{1, 2, 300, 1} {
			fill(t, l, rows)
			wantPush(t, p, l, "")
			wantPush(t, p, l, "")
			newest, err := l.NewestCheckpoint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if stored, ok, err := p.Stored(t.Context()); ok && (err != nil || !bytes.Equal(stored, newest)) {
				t.Errorf("it keeps %q, %v; want %q", stored, err, newest)
			}
		}
		if _, err := l.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		fill(t, l, 2)
		wantPush(t, p, l, "")
	})
}

// TestStatePutBack restores the whole state directory: with its checkpoints, it is consistent in itself.
func TestStatePutBack(t *testing.T) {
	eachPlace(t, func(t *testing.T, p Place) {
		path := filepath.Join(t.TempDir(), "log.db")
		l := open(t, path)
		fill(t, l, 20)
		wantPush(t, p, l, "")
		l.Close()
		back := save(t, path)
		l = open(t, path)
		fill(t, l, 20)
		wantPush(t, p, l, "")
		old := open(t, back())
		if r, err := old.Verify(t.Context(), audit.VerifyOptions{Keys: logKeys}); err != nil || r.Bad != nil {
			t.Fatalf("the older copy is not sound: %+v, %v", r.Bad, err)
		}
		wantPush(t, p, old, audit.ErrOlder.Error())
		if note, ok, err := p.Stored(t.Context()); ok {
			r, verifyErr := old.Verify(t.Context(), audit.VerifyOptions{Keys: logKeys, Checkpoints: [][]byte{note},
				Names: []string{"the pushed one"}})
			if err != nil || verifyErr != nil || r.Bad == nil || !strings.Contains(r.Bad.Why, "the pushed one covers them") {
				t.Errorf("got %+v, %v, %v", r.Bad, err, verifyErr)
			}
		}
		fill(t, old, 30) // and continues with other rows
		wantPush(t, p, old, "rewritten")
		wantPush(t, p, l, "") // the true one is still followed
	})
}

// TestOtherLog: a log that was started anew does not replace the old one: a witness does not know it.
func TestOtherLog(t *testing.T) {
	for name, text := range map[string]string{"file": filepath.Join(t.TempDir(), "kept.note"), "git": "git:" + bareGit(t) + "#main"} {
		t.Run(name, func(t *testing.T) {
			p := place(t, text)
			one, other := open(t, filepath.Join(t.TempDir(), "log.db")), open(t, filepath.Join(t.TempDir(), "log.db"))
			fill(t, one, 3)
			fill(t, other, 30)
			wantPush(t, p, one, "")
			wantPush(t, p, other, "of another log")
			stored, _, err := p.Stored(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := one.CheckContinues(t.Context(), stored, logKeys); err != nil {
				t.Error(err)
			}
			if _, err := one.CheckContinues(t.Context(), stored, []checkpoint.Key{{PublicKey: seeded("b").Public().(ed25519.PublicKey)}}); err == nil {
				t.Error("a checkpoint by nobody who is known is taken")
			}
		})
	}
}

// TestLyingWitness: a witness's answers are not trusted, and are bounded in time and size.
func TestLyingWitness(t *testing.T) {
	conflict := func(size string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/x.tlog.size")
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, size)
			return true
		}
	}
	answer := func(code int, text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(code)
			io.WriteString(w, text)
			return true
		}
	}
	n := 0
	for name, c := range map[string]struct {
		lie  func(http.ResponseWriter, *http.Request) bool
		want string
	}{
		"no signature":           {answer(200, ""), "not a signature of witness.example"},
		"nonsense":               {answer(200, "ok\n"), "not a signature of"},
		"of another text":        {answer(200, cosign("x\n1\ny\n", cosignerName, cosignerKey)), "not a signature of"},
		"by another key":         {answer(200, cosign("x\n", cosignerName, seeded("x"))), "not a signature of"},
		"without end":            {answer(200, strings.Repeat("x", 1<<20)), "not a signature of"},
		"a larger log":           {conflict("1000000\n"), "or the witness lies"},
		"a size that is none":    {conflict("many\n"), "names no size"},
		"a size below zero":      {conflict("-1\n"), "names no size"},
		"409, and the same size": {conflict("0\n"), "refuses the size that it names itself"},
		"another size each time": {func(w http.ResponseWriter, r *http.Request) bool { n++; return conflict(fmt.Sprint(n))(w, r) }, "another size each time"},
		"409 without a size":     {answer(409, "no"), "rewritten"},
		"no proof":               {answer(422, "no"), "rewritten"},
		"unknown log":            {answer(404, ""), "does not know this log"},
		"unknown key":            {answer(403, ""), "does not know the key"},
		"an error":               {answer(500, ""), "500"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
			return true
		}, "307"},
		"an end in the middle":    {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, "EOF"},
		"a number with a newline": {conflict("5\n\n"), "names no size"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitness(t)
			w.lie = c.lie
			l := open(t, filepath.Join(t.TempDir(), "log.db"))
			fill(t, l, 9)
			if got := wantPush(t, w.place(t), l, c.want); got != nil {
				t.Errorf("got %q", got)
			}
			if w.asks > 4 {
				t.Errorf("it was asked %d times", w.asks)
			}
		})
	}
}

// TestHangingWitness: a call to a hanging witness ends with the caller's context.
func TestHangingWitness(t *testing.T) {
	w := newWitness(t)
	ctx, cancel := context.WithCancel(t.Context())
	hang := make(chan struct{})
	w.lie = func(http.ResponseWriter, *http.Request) bool { cancel(); <-hang; return true }
	t.Cleanup(func() { close(hang) }) // before the server is closed
	l := open(t, filepath.Join(t.TempDir(), "log.db"))
	fill(t, l, 1)
	if _, err := w.place(t).Push(ctx, l, logKeys); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-late.Done()
	if _, err := w.place(t).Push(late, l, logKeys); err == nil || !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("got %v", err)
	}
}

// TestCosigned: a witness's signature must be on the pushed checkpoint.
func TestCosigned(t *testing.T) {
	w := newWitness(t)
	l := open(t, filepath.Join(t.TempDir(), "log.db"))
	fill(t, l, 5)
	lines := wantPush(t, w.place(t), l, "")
	newest, err := l.NewestCheckpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCosigner(cosignerText())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(append(newest, lines...), note.VerifierList(c))
	if err != nil || len(n.Sigs) != 1 {
		t.Errorf("got %v, %v", n, err)
	}
	if _, err := l.CheckContinues(t.Context(), append(newest, lines...), logKeys); err != nil {
		t.Error(err)
	}
}

// TestPlaceThatFails: a place that can't be written keeps its checkpoint.
func TestPlaceThatFails(t *testing.T) {
	dir := t.TempDir()
	l := open(t, filepath.Join(t.TempDir(), "log.db"))
	fill(t, l, 1)
	path := filepath.Join(dir, "kept.note")
	p := place(t, path)
	wantPush(t, p, l, "")
	was, _, _ := p.Stored(t.Context())
	fill(t, l, 1)
	if err := os.WriteFile(path, []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantPush(t, p, l, "not a signed checkpoint")
	if err := os.WriteFile(path, was, 0o600); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	wantPush(t, place(t, filepath.Join(dir, "none", "kept.note")), l, "no such file")
	wantPush(t, place(t, "git:"+filepath.Join(dir, "none.git")), l, "git ls-remote")
}

func TestParse(t *testing.T) {
	for text, good := range map[string]bool{
		"/a/b": true, "git:x": true, "git:git@example.com:a/b.git#c": true, "https://w.example/x#" + cosignerText(): true,
		"": false, "a/b": false, "git:": false, "git:-x": false, "git:x#-y": false, "git:x#a b": false, "ftp://x": false,
		"https://w.example/x": false, "https://w.example/x#a+b+c": false, "https://w.example/x#" + strings.Replace(cosignerText(), "witness", "Witness", 1): false,
	} {
		if _, err := Parse(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
