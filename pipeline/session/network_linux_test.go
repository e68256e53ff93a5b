package session_test

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// TestSessionNetwork: the rules of a session are within the operator's policy, can be replaced, and are refused where
// they can't be enforced.
func TestSessionNetwork(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Egress.Policy, _ = egress.NewPolicy([]string{"a.test", "b.test"}, nil)
	})
	open := func(n session.Network) (session.Info, error) {
		return pipelinetest.OpenSession(t.Context(), p, session.New{Language: "python", Network: &n})
	}
	header := func(host, name, value string) session.Network {
		return session.Network{Headers: []session.Header{{host, name, value}}}
	}
	for name, bad := range map[string]session.Network{
		"another name":      {Allow: []string{"c.test"}},
		"a host":            header("*", "X-Key", "v"),
		"a header's name":   header("a.test", "X Key", "v"),
		"a reserved one":    header("a.test", "Transfer-Encoding", "chunked"),
		"a value":           header("a.test", "X-Key", "a\r\nX-Other: b"),
		"too many networks": {Deny: make([]netip.Prefix, session.MaxDenied+1)},
	} {
		if _, err := open(bad); err == nil || !errors.As(err, new(*pipeline.Error)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	secret := "value-of-the-header-1234"
	n := header("a.test", "X-Key", secret)
	n.Allow = []string{}
	info, err := open(n)
	if err != nil {
		t.Fatal(err)
	}
	reached := func() string {
		t.Helper()
		_, res, err := pipeline.Do(t.Context(), p, run.Request{Where: run.Where{Session: info.ID}, Code: []byte(`
import socket
for n in "a.test", "b.test", "c.test":
    try:
        socket.getaddrinfo(n, 443)
        print(n[0], end="")
    except OSError:
        pass
`)})
		if err != nil {
			t.Fatal(err)
		}
		return res.Stdout
	}
	set := func(n session.Network) error {
		_, _, err := pipeline.Do(t.Context(), p, session.SetNetwork{Session: info.ID, Network: n})
		return err
	}
	if got := reached(); got != "" {
		t.Errorf("at first %q is reached", got)
	}
	for _, c := range []struct {
		session.Network
		want string // what is reached then
		bad  bool
	}{
		{session.Network{Allow: []string{"b.test"}}, "b", false}, {session.Network{}, "ab", false}, {session.Network{Allow: []string{"c.test"}},
			"ab", true},
		{session.Network{Allow: []string{}}, "", false},
	} {
		if err := set(c.Network); (err != nil) != c.bad {
			t.Errorf("%v: %v", c.Network, err)
		}
		if got := reached(); got != c.want {
			t.Errorf("%v: %q is reached, want %q", c.Network, got, c.want)
		}
	}
	if _, res, err := pipeline.Do(t.Context(), p, run.Request{
		Where: run.Where{Session: info.ID}, Code: []byte("print('" + secret + "')"),
	}); err != nil || strings.Contains(res.Stdout, secret) {
		t.Errorf("a header's value is shown: %q, %v", res.Stdout, err)
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.SetNetwork{Namespace: "other", Session: info.ID}); !errors.Is(err,
		session.ErrUnknown) {
		t.Errorf("of another namespace: %v", err)
	}
	rows := 0
	for _, err := range log.Rows(t.Context(), audit.Filter{Kinds: []string{session.SessionNetwork}}) {
		if rows++; err != nil {
			t.Fatal(err)
		}
	}
	if rows != 3 {
		t.Errorf("%d rows say that the network was changed", rows)
	}
}

// TestNetworkLeases: a session holds the values of its rules' headers and no more leases, of which there is a bound,
// and one that is not opened holds none.
func TestNetworkLeases(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Egress.Policy, _ = egress.NewPolicy([]string{"a.test"}, nil)
	})
	info, err := pipelinetest.OpenSession(t.Context(), p, session.New{Bare: true, Network: &session.Network{}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.FindSession(p, "", info.ID)
	if err != nil {
		t.Fatal(err)
	}
	set := func(n session.Network) error {
		_, _, err := pipeline.Do(t.Context(), p, session.SetNetwork{Session: info.ID, Network: n})
		return err
	}
	if err := set(session.Network{Allow: []string{}}); err != nil || len(s.Leases()) > 0 {
		t.Errorf("rules without headers leave %d leases, %v", len(s.Leases()), err)
	}
	many := session.Network{}
	for range session.MaxHeaders {
		many.Headers = append(many.Headers, session.Header{"a.test", "X-Key", "value-of-the-header-1234"})
	}
	for range session.MaxLeased / session.MaxHeaders {
		if err := set(many); err != nil {
			t.Fatal(err)
		}
	}
	if err := set(many); err == nil || len(s.Leases()) != session.MaxLeased/session.MaxHeaders {
		t.Errorf("%d leases, %v", len(s.Leases()), err)
	}
	q := session.New{Bare: true, Network: &many}
	r := p.NewRun(q.Subject())
	if _, err := q.Plan(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r.Release() // as where there is no room
	if _, err := r.Leases.ContainsSecret(strings.NewReader("text")); !errors.Is(err, vault.ErrClosed) {
		t.Errorf("the values are kept: %v", err)
	}
}

// TestDisplay: displays of a cell come while it runs, without secrets, and variables that are for one cell are gone
// after it.
func TestDisplay(t *testing.T) {
	p, _, memory := pipelinetest.NewReal(t, nil)
	memory.Set("default", "TOKEN", []byte("abc123def456ghi"))
	opened, _, err := pipeline.Do(t.Context(), p, session.New{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	id := opened.ID
	displayed := make(chan string, 1)
	q := run.Request{Where: run.Where{Session: id}, Reach: run.Reach{Secrets: []string{"TOKEN"}}, Env: []string{"ONCE=1"}, EnvOnce: true,
		Code: []byte("import os, time\ndisplay(os.environ['TOKEN'] + os.environ['ONCE'])\nwhile not os.path.exists('go'): time.sleep(0.01)")}
	q.Display = func(b kernel.Bundle) { displayed <- b["text/plain"] }
	done := make(chan error, 1)
	go func() {
		_, _, err := pipeline.Do(t.Context(), p, q)
		done <- err
	}()
	if got := <-displayed; strings.Contains(got, "abc123def456ghi") || !strings.Contains(got, "REDACTED") {
		t.Errorf("shown is %q", got)
	}
	s, err := session.FindSession(p, "", id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sandbox().Files().Put("go", 0o644, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_, res, err := pipeline.Do(t.Context(), p, run.Request{
		Where: run.Where{Session: id}, Code: []byte("print(os.environ.get('ONCE'))"), Bounds: pipeline.Bounds{Limits: q.Limits},
	})
	if err != nil || res.Stdout != "None\n" {
		t.Errorf("the variable is %q later, %v", res.Stdout, err)
	}
}

// TestLeftOut: displays that wait for a caller are bounded, and the caller learns how many are missing.
func TestLeftOut(t *testing.T) {
	reads := make(chan struct{})
	var got []string
	s := output.NewDisplayQueue(func(b kernel.Bundle) { <-reads; got = append(got, b["text/plain"]) })
	large := strings.Repeat("x", 3<<20)
	for n := range 6 { // of which the first may be on its way already
		s.Add(kernel.Bundle{"text/plain": strconv.Itoa(n), "text/html": large})
	}
	close(reads)
	hosttest.Until(t, "it is read", func() bool { s.Mu.Lock(); defer s.Mu.Unlock(); return len(s.Waiting) == 0 && s.Lost == 0 })
	s.Add(kernel.Bundle{"text/plain": "later"})
	s.Close()
	<-s.Delivered
	for _, want := range [][]string{
		{"0", "1", "4 displays are omitted: they came faster than they were read", "later"},
		{"0", "1", "2", "3 displays are omitted: they came faster than they were read", "later"},
	} {
		if slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("got %q", got)
}

// TestSlowDisplay: code that shows displays waits for no caller, and the caller gets all of them in order. Meanwhile
// the result keeps only their texts.
func TestSlowDisplay(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	opened, _, err := pipeline.Do(t.Context(), p, session.New{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for n := range 100 {
		want = append(want, strconv.Itoa(n))
	}
	reads, done := make(chan struct{}), make(chan error, 1)
	read := sync.OnceFunc(func() { close(reads) })
	t.Cleanup(read)
	code := "class P:\n  def __init__(s, n): s.n = n\n  def __repr__(s): return str(s.n)\n  def _repr_html_(s): return 'large'\nfor n in " +
		"range(100): display(P(n))"
	go func() {
		_, res, err := pipeline.Do(t.Context(), p, run.Request{Where: run.Where{Session: opened.ID}, Code: []byte(code),
			Streams: run.Streams{Display: func(b kernel.Bundle) {
				<-reads
				got = append(got, b["text/plain"])
				if b["text/html"] == "" {
					t.Error("the caller lacks a form of it")
				}
			}}})
		for i, b := range res.Displays {
			if len(b) != 1 || b["text/plain"] != want[i] {
				t.Errorf("the result keeps %v", b)
			}
		}
		done <- err
	}()
	hosttest.Until(t, "the code has ended", func() bool {
		return slices.ContainsFunc(p.ListRunning(""), func(r pipeline.RunningEffect) bool { return r.State == "ending" })
	})
	read()
	if err := <-done; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}
