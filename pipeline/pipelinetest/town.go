package pipelinetest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Town has names that lead to servers on this machine's loopback addresses.
type Town struct {
	Mu    sync.Mutex
	Names map[string]netip.Addr
	Asked []string
}

func EmptyTown() *Town { return &Town{Names: map[string]netip.Addr{}} }

// NewTown is a pipeline whose operator allows what is given.
func NewTown(t *testing.T, allow []string, change func(*pipeline.Config)) (*pipeline.Pipeline, *FlakyLog, *vault.Memory, *Town) {
	t.Helper()
	w := EmptyTown()
	p, log, memory := NewReal(t, func(c *pipeline.Config) {
		c.Egress = w.Egress(t, allow)
		if change != nil {
			change(c)
		}
	})
	return p, log, memory, w
}

// Fetch is a program that fetches a page and says how that went.
func Fetch(urls ...string) []byte {
	list, _ := json.Marshal(urls)
	return []byte(`
import urllib.request
for url in ` + string(list) + `:
    try:
        print(urllib.request.urlopen(url, timeout=1000).read().decode())
    except Exception as e:
        print(type(e).__name__, e)
`)
}

func Python(code []byte, change func(*run.Request)) run.Request {
	q := run.Request{Language: "python", Code: code}
	if change != nil {
		change(&q)
	}
	return q
}

func NewAsking(t *testing.T, ask bool) (*pipeline.Pipeline, *FlakyLog, *Town, *approval.Broker) {
	var broker *approval.Broker
	p, log, _, w := NewTown(t, nil, func(c *pipeline.Config) {
		broker = approval.New(approval.Config{Audit: c.Audit})
		c.Approvals, c.Egress.Ask = broker, ask
	})
	t.Cleanup(func() { broker.Close() })
	return p, log, w, broker
}

func (w *Town) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Asked = append(w.Asked, host)
	if a, ok := w.Names[host]; ok {
		return []netip.Addr{a}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *Town) Lookups(host string) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Contains(w.Asked, host)
}

// The doors of a sandbox in which a person is asked are on port 80, so the server must be there: on an address that
// no other process of the same tests uses.
func (w *Town) Serve80(t *testing.T, name string, h http.Handler) {
	t.Helper()
	at := netip.AddrFrom4([4]byte{127, 9, byte(os.Getpid() >> 8), byte(os.Getpid())})
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 80).String())
	if err != nil {
		hosttest.Missing(t, "port 80", err.Error())
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	w.Names[name] = at
}
