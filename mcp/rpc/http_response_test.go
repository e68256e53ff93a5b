package rpc

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// TestLongOperation: a long operation is answered by JSON with its status, and by a stream only if the client names
// that type.
func TestLongOperation(t *testing.T) {
	for accept, stream := range map[string]bool{"": false, "*/*": false, "application/json": false, "text/event-stream;q=0": false,
		"text/event-stream": true, "application/json, text/event-stream": true} {
		synctest.Test(t, func(t *testing.T) {
			r, w, m := httptest.NewRequest(http.MethodPost, "/v1/tools/execute_code", nil), httptest.NewRecorder(),
				&Message{Plain: true, status: http.StatusUnprocessableEntity}
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			a := newResponse(w, r, m)
			go func() {
				time.Sleep(3 * door.Heartbeat)
				a.replied <- []byte(`{"error":"no"}`)
			}()
			a.write(t.Context(), m, &httpSession{})
			status, kind := http.StatusUnprocessableEntity, "application/json"
			if stream {
				status, kind = http.StatusOK, "text/event-stream"
			}
			if w.Code != status || w.Header().Get("Content-Type") != kind || json.Valid(w.Body.Bytes()) == stream {
				t.Errorf("%s: got %d %v %s", accept, w.Code, w.Header(), w.Body)
			}
		})
	}
}
