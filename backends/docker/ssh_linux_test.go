package docker

import (
	"io"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// TestSSH checks that every operation works through ssh with a real sshd, and that the engine does not count as
// local.
func TestSSH(t *testing.T) {
	testEngine(t)
	url, environ := enginetest.SSH(t, enginetest.Docker(t))
	e := New(Config{Host: url, Environ: environ}).(*docker)
	defer e.Close()
	i, err := e.Info(t.Context())
	if err != nil || i.Local || i.Address != url {
		t.Fatalf("got %+v, %v", i, err)
	}
	id := create(t, e, plan(t, e, "guest:1", "echo"))
	s, err := e.Attach(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := waitExit(t, e, id)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "over and back"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len("over and back"))
	if _, err := io.ReadFull(s, b); err != nil || string(b) != "over and back" {
		t.Errorf("got %q, %v", b, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if x := <-done; x != (container.Exit{}) {
		t.Errorf("got %+v", x)
	}
	nowhere := New(Config{Host: "ssh://nobody-there@" + url[strings.Index(url, "@")+1:], Environ: environ})
	if _, err := nowhere.Info(t.Context()); err == nil {
		t.Error("a user who may not get in did")
	} else {
		t.Log(err)
	}
}
