package control

import "testing"

// A copy of a session that is not there, and one that nobody understands.
func TestCopyRefused(t *testing.T) {
	l := serve(t, Config{})
	if status, _ := raw(t, l, request("POST", "/v1/sessions/x/copy", `{"source":"/a","destination":"b"}`)); status != 404 {
		t.Errorf("a server that runs nothing: %d", status)
	}
}
