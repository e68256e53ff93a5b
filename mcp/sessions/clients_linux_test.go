package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestManyClients: many concurrent clients, each with its own session, get all answers, and only those of their own
// session. With SANDBOXMCP_TEST_LONG=1 they are 64 and send 10,000 calls.
func TestManyClients(t *testing.T) {
	clients, calls := 8, 12
	if os.Getenv("SANDBOXMCP_TEST_LONG") == "1" {
		clients, calls = 64, 157
	}
	r := newRig(t, session.Config{PerNamespace: clients})
	began := time.Now()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			if err := r.runClient(c, calls); err != nil {
				t.Errorf("client %d: %v", c, err)
			}
		})
	}
	all.Wait()
	t.Logf("%d calls of %d clients in %s", clients*calls, clients, time.Since(began).Round(time.Millisecond))
	for _, s := range session.List(r.p, "") {
		if s.State != "dead" {
			t.Errorf("the session %s is left", s.ID)
		}
	}
}

// runClient creates a session, counts in it, and ends it.
func (r *rig) runClient(number, calls int) error {
	send := func(method, path string, body any) (status int, got []byte, err error) {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader(data))
		if err != nil {
			return 0, nil, err
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Who", "crowd")
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0, nil, err
		}
		defer res.Body.Close()
		got, err = io.ReadAll(res.Body)
		return res.StatusCode, got, err
	}
	status, body, err := send("POST", Root, map[string]any{})
	var s described
	if err != nil || status != http.StatusCreated || json.Unmarshal(body, &s) != nil {
		return fmt.Errorf("create: %d %s %w", status, body, err)
	}
	for n := range calls {
		code := fmt.Sprintf("n = globals().get('n', %d) + 1; print(n)", number*1000)
		status, body, err := send("POST", Root+"/"+s.ID+"/exec", map[string]any{"tool": codeTool, "input": map[string]string{"code": code}})
		want := fmt.Sprintf(`"stdout":"%d\n"`, number*1000+n+1)
		if err != nil || status != http.StatusOK || !strings.Contains(string(body), want) {
			return fmt.Errorf("call %d: %d %s %v, want %s", n, status, body, err, want)
		}
	}
	if status, body, err := send("DELETE", Root+"/"+s.ID, nil); err != nil || status != http.StatusNoContent {
		return fmt.Errorf("delete: %d %s %v", status, body, err)
	}
	return nil
}
