package identity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestTokenText(t *testing.T) {
	token, id := newToken(nil)
	if got, ok := parseToken(token); !ok || got != id || len(token) != tokenLength {
		t.Fatalf("%s: got %q, %v", token, got, ok)
	}
	for i := range token {
		wrong := []byte(token)
		wrong[i] ^= 1
		if _, ok := parseToken(string(wrong)); ok {
			t.Errorf("with another byte %d: it is a token", i)
		}
	}
	for _, wrong := range []string{"", tokenPrefix, token[:len(token)-1], token + "A", strings.ToLower(token), " " + token, token + "\n"} {
		if _, ok := parseToken(wrong); ok {
			t.Errorf("%q is a token", wrong)
		}
	}
	other, _ := newToken(nil)
	if other == token {
		t.Error("two tokens are the same")
	}
}

func TestVerify(t *testing.T) {
	s := OpenTokens(t.TempDir())
	derivations := counted(s)
	token := create(t, s, agent)
	derivations.Store(0)
	stranger, _ := newToken(nil)
	for name, tt := range map[string]struct {
		token string
		want  error
		cost  int64
	}{
		"right":        {token, nil, 1},
		"wrong secret": {wrongSecret(token), errInvalid, 0},
		"unknown id":   {stranger, errInvalid, 0},
		"typing error": {token[:tokenLength-1] + "0", errInvalid, 0},
		"nothing":      {"", errInvalid, 0},
	} {
		derivations.Store(0)
		i, err := s.Verify(t.Context(), tt.token)
		if !errors.Is(err, tt.want) || derivations.Load() != tt.cost {
			t.Errorf("%s: got %v after %d derivations, want %v after %d", name, err, derivations.Load(), tt.want, tt.cost)
		}
		if (err == nil) != (i.Name == "ci") {
			t.Errorf("%s: got %+v", name, i)
		}
	}
	i, err := s.Verify(t.Context(), token)
	if err != nil || derivations.Load() > 1 || i.String() != "token:ci" || i.Kind != Agent ||
		!slices.Equal(i.Namespaces.List(), []string{"a", "b"}) || i.Token == "" || i.Owner() != "token:ci "+i.Token {
		t.Errorf("the second time: %+v, %v", i, err)
	}
	data, err := os.ReadFile(s.path())
	if err != nil || strings.Contains(string(data), token) || strings.Contains(string(data), token[16:40]) {
		t.Errorf("the file has the token: %v", err)
	}
}

// Another process's changes count from the next request on.
func TestRevokedInUse(t *testing.T) {
	dir := t.TempDir()
	server, other := quick(dir), quick(dir)
	token := create(t, other, agent)
	for range 3 {
		if _, err := server.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Revoke(t.Context(), "ci", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Verify(t.Context(), token); !errors.Is(err, errInvalid) {
		t.Errorf("a revoked token: got %v", err)
	}
	again := create(t, other, agent) // of the same name
	if _, err := server.Verify(t.Context(), token); !errors.Is(err, errInvalid) {
		t.Errorf("the old token of a new one's name: got %v", err)
	}
	if _, err := server.Verify(t.Context(), again); err != nil {
		t.Error(err)
	}
	if gone, err := other.Revoke(t.Context(), again, nil); err != nil || gone.Name != "ci" { // one that somebody found
		t.Errorf("got %v, %v", gone, err)
	}
	if _, err := other.Revoke(t.Context(), "ci", nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

// A hash that has another in its place takes its token with it, though that was verified before.
func TestHashReplaced(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	if _, err := s.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	err := s.change(t.Context(), func(all *content) error {
		all.Tokens[0].Hash[0] ^= 1
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if i, err := s.Verify(t.Context(), token); !errors.Is(err, errInvalid) {
		t.Errorf("got %v, %v", i, err)
	}
}

// A token that is revoked while it is being checked for the first time is not taken.
func TestRevokedInDerivation(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	derive := s.derive
	s.derive = func(token string, salt []byte) []byte {
		if _, err := quick(s.dir).Revoke(context.Background(), "ci", nil); err != nil {
			t.Error(err)
		}
		return derive(token, salt)
	}
	if i, err := s.Verify(t.Context(), token); !errors.Is(err, errInvalid) {
		t.Errorf("got %v, %v", i, err)
	}
}

func TestExpired(t *testing.T) {
	s := quick(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		spec := agent
		spec.Expires = time.Now().Add(time.Hour)
		token := create(t, s, spec)
		for range 2 {
			if _, err := s.Verify(t.Context(), token); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := s.Verify(t.Context(), token); !errors.Is(err, errLapsed) {
			t.Errorf("a verified token that expired: got %v", err)
		}
		if _, err := quick(s.dir).Verify(t.Context(), token); !errors.Is(err, errLapsed) {
			t.Errorf("an expired token: got %v", err)
		}
	})
}

func TestUsed(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	writes := func() (n int) {
		before, _ := os.Stat(s.path())
		for range 20 {
			if _, err := s.Verify(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			after, err := os.Stat(s.path())
			if err != nil {
				t.Fatal(err)
			}
			if !os.SameFile(before, after) {
				n++
			}
			before = after
		}
		return n
	}
	if got := writes(); got != 1 {
		t.Errorf("the store was written %d times, want once", got)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].Used.IsZero() || list[0].Used.After(time.Now()) || list[0].Used.Minute() != 0 {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	s := quick(t.TempDir())
	create(t, s, agent)
	token, _ := newToken(nil)
	for name, spec := range map[string]Token{
		"same name":       agent,
		"no kind":         {Name: "x", Namespaces: Only("a")},
		"odd kind":        {Name: "x", Kind: "root", Namespaces: Only("a")},
		"no namespace":    {Name: "x", Kind: Agent},
		"all namespaces":  {Name: "x", Kind: Agent, Namespaces: Only("*")},
		"empty":           {Name: "x", Kind: Agent, Namespaces: Only("")},
		"all":             {Name: "x", Kind: Agent, Namespaces: All()},
		"a person's none": {Name: "x", Kind: Person},
		"twice":           {Name: "x", Kind: Agent, Namespaces: Only("a", "a")},
		"no name":         {Kind: Person, Namespaces: All()},
		"a line":          {Name: "x\ny", Kind: Person, Namespaces: All()},
		"a token":         {Name: token, Kind: Person, Namespaces: All()},
		"an id":           {Name: token[5:15], Kind: Person, Namespaces: All()},
		"a dash first":    {Name: "-x", Kind: Person, Namespaces: All()},
	} {
		got, _, err := s.Create(t.Context(), spec, nil)
		if err == nil || got != "" || strings.Contains(err.Error(), tokenPrefix) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	failed := errors.New("the log is full")
	if got, _, err := s.Create(t.Context(), Token{Name: "x", Kind: Person, Namespaces: All()}, func(Token) error { return failed }); got != "" || err != failed {
		t.Errorf("without a row: got %q, %v", got, err)
	}
	if gone, err := s.Revoke(t.Context(), "ci", func(Token) error { return failed }); err != failed || gone.Name != "ci" {
		t.Errorf("got %v, %v", gone, err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("a token holds on because the log is full: %v, %v", list, err)
	}
}

// A store that is cut off, changed or open to others takes nobody, and nothing is written over it.
func TestDamaged(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	whole, err := os.ReadFile(s.path())
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, data string, mode os.FileMode) {
		os.Remove(s.path())
		if err := os.WriteFile(s.path(), []byte(data), mode); err != nil {
			t.Fatal(err)
		}
		for _, store := range []*Tokens{s, quick(s.dir)} { // one that has it in memory, and one that has not
			if i, err := store.Verify(t.Context(), token); err == nil {
				t.Fatalf("%s: it takes %v", name, i)
			}
		}
		if _, _, err := s.Create(t.Context(), Token{Name: "new", Kind: Person, Namespaces: All()}, nil); err == nil {
			t.Fatalf("%s: a token was created", name)
		}
		if after, err := os.ReadFile(s.path()); err != nil || string(after) != data {
			t.Fatalf("%s: it was written over: %v", name, err)
		}
	}
	if _, err := s.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	for n := 0; n < len(text); n += 7 {
		try("cut off", text[:n], 0o600)
	}
	try("followed", text+"{}", 0o600)
	for _, edit := range [][2]string{{`"version": 1`, `"version": 2`}, {`"kind": "agent"`, `"kind": "agent", "expiry": "2020-01-01T00:00:00Z"`},
		{`"m=19456`, `"m=1`}, {"m=19456", "m=1"}, {`"salt": "`, `"salt": "AA`}, {`"agent"`, `"root"`}} {
		if edited := strings.Replace(text, edit[0], edit[1], 1); edited != text {
			try(edit[1], edited, 0o600)
		}
	}
	try("readable by others", text, 0o644)
	os.Remove(s.path())
	if _, err := s.Verify(t.Context(), token); !errors.Is(err, errInvalid) {
		t.Errorf("without the file: got %v", err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(s.dir, "other"), whole, 0o600), os.Symlink("other", s.path())); err == nil {
		if _, err := s.Verify(t.Context(), token); err == nil {
			t.Error("it follows a link")
		}
	}
}

// Processes that create at once each get all of theirs, and one that is killed leaves all that it acknowledged was
// there.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var acknowledged []string
	var group sync.WaitGroup
	for _, name := range []string{"one-", "two-", "three-"} {
		for round := range 3 {
			cmd, lines := creator(t, dir, name+string(rune('a'+round))+"-")
			group.Go(func() {
				for n := 0; n < 15 && lines.Scan(); n++ {
					mu.Lock()
					acknowledged = append(acknowledged, lines.Text())
					mu.Unlock()
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				for lines.Scan() {
				}
				_ = cmd.Wait() // it was killed
			})
		}
	}
	group.Wait()
	s := quick(dir)
	list, err := s.List()
	if err != nil || len(acknowledged) != 9*15 {
		t.Fatalf("%d were created: %v", len(acknowledged), err)
	}
	there := map[string]bool{}
	for _, one := range list {
		there[one.Name] = true
	}
	for _, name := range acknowledged {
		if !there[name] {
			t.Errorf("%s is gone", name)
		}
	}
	create(t, s, agent) // what the dead left is no obstacle
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Tokens that come at once use no more of the machine than a few derivations, and all are accepted. A known token is
// accepted meanwhile.
func TestDerivations(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	if _, err := s.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	const clients = 200
	var fresh []string
	for i := range clients {
		fresh = append(fresh, create(t, s, Token{Name: fmt.Sprint("c", i), Kind: Agent, Namespaces: Only("a")}))
	}
	var running, most atomic.Int64
	hold, derive := make(chan struct{}), s.derive
	s.derive = func(token string, salt []byte) []byte {
		n := running.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-hold
		running.Add(-1)
		return derive(token, salt)
	}
	errs := make(chan error, clients)
	for _, one := range fresh {
		go func() { _, err := s.Verify(context.Background(), one); errs <- err }()
	}
	hosttest.Until(t, "all places are taken", func() bool { return running.Load() == maxDerivations })
	if _, err := s.Verify(t.Context(), token); err != nil {
		t.Errorf("a token that is known: %v", err)
	}
	for range 100 {
		if _, err := s.Verify(t.Context(), wrongSecret(fresh[0])); !errors.Is(err, errInvalid) {
			t.Errorf("a wrong one: %v", err)
		}
	}
	close(hold)
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != maxDerivations {
		t.Errorf("%d derivations at once, want %d", most.Load(), maxDerivations)
	}
}

// Many clients that come with a good token at once do not pay for it each.
func TestVerifyAtOnce(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	const clients = 50
	n := counted(s)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			if _, err := s.Verify(context.Background(), token); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n.Load() > maxDerivations {
		t.Errorf("%d derivations", n.Load())
	}
}
