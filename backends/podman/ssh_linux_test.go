package podman

import (
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// TestSSH runs a container on an engine over ssh: no file of this host is visible there.
func TestSSH(t *testing.T) {
	near := enginetest.Podman(t)
	id := withImage(t, connected(t, near))
	host, env := enginetest.SSH(t, near)
	for _, one := range env { // the library reads this process's environment
		name, value, _ := strings.Cut(one, "=")
		t.Setenv(name, value)
	}
	e := New(Config{Host: host, Dir: t.TempDir()}).(*Engine)
	t.Cleanup(func() { e.Close() })
	info, err := e.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", info)
	c := basicContainer(id, "facts")
	if info.Rootless {
		c.User = "1000:1000" // a mapped user
	}
	out, stderr, exit := run(t, e, c)
	if exit.Code != 0 {
		t.Fatalf("%+v: %s", exit, stderr)
	}
	if f := unmarshal(t, out); f["/etc/resolv.conf"] != nameFiles[0].text {
		t.Errorf("resolv.conf: %q", f["/etc/resolv.conf"])
	}
	// A broken connection is opened again.
	e.conn.HTTP.CloseIdleConnections()
	e.forgetConnection(e.conn.Link)
	if _, err := e.Image(t.Context(), image); err != nil {
		t.Error(err)
	}
}
