package pipelinetest

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Town resolves names to servers on this machine's loopback addresses.
type Town struct {
	Mu    sync.Mutex
	Names map[string]netip.Addr
	Asked []string
}

func EmptyTown() *Town { return &Town{Names: map[string]netip.Addr{}} }

// NewTown returns a pipeline whose operator allows allow.
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

// Fetch returns a program that fetches pages and prints the results.
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
