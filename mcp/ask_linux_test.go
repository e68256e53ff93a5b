package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// TestProgramsCantAnswer: a program in a sandbox can't answer through the socket of the command line.
func TestProgramsCantAnswer(t *testing.T) {
	r := newRig(t, nil)
	dir := filepath.Join(t.TempDir(), "run")
	listener, err := control.Listen(dir, control.New(control.Config{Server: control.Server{PID: os.Getpid()}, Approvals: r.cfg.Approvals}))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p := r.hello("2025-11-25", `{}`)
	asked := p.tool("request_egress", `{"domain":"a.example.com","namespace":"n"}`)
	id, _ := asked.facts["approval_id"].(string)
	code := fmt.Sprintf(`
import socket, os
path = %q
for where in (path, "/proc/1/root" + path, "/proc/%d/root" + path, "\0" + path):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(where)
        body = b'{"allow":true}'
        s.send(b"POST /v1/approvals/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %%d\r\n\r\n%%s" %% (len(body), body))
        body = b'{"kind":"egress","what":"b.example.com","namespace":"n"}'
        s.send(b"POST /v1/grants HTTP/1.1\r\nHost: x\r\nContent-Length: %%d\r\n\r\n%%s" %% (len(body), body))
        print("connected to", where, s.recv(1000))
    except OSError as e:
        print("no way:", e)
`, filepath.Join(dir, fmt.Sprintf("%d.sock", os.Getpid())), os.Getpid(), id)
	if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("%d.sock", os.Getpid()))); err != nil {
		t.Fatal("there is no socket, so nothing is tested:", err)
	}
	got := p.tool("execute_code", fmt.Sprintf(`{"code":%s,"namespace":"n"}`, quoted(code)))
	contains(t, got.text, "no way:")
	if g := r.cfg.Approvals.Grants(); len(g) > 0 || len(r.cfg.Approvals.Pending()) != 1 {
		t.Errorf("a program has answered: %+v, %s", g, got.text)
	}
	// From outside of the sandbox, the same request works.
	client, err := control.Dial(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if out, err := control.Call(t.Context(), client, control.AnswerApproval, control.Verdict{ID: id, Allow: true}); err != nil ||
		out.Scope != approval.ScopeTime {
		t.Errorf("got %+v, %v", out, err)
	}
}
