package podman

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "containers.conf")
	write(t, conf, "[engine]\nactive_service=\"old\"\n[engine.service_destinations.old]\nuri=\"ssh://old@a.example/x\"\nidentity=\"/key\"\n")
	remote := filepath.Join(dir, "remote.conf")
	write(t, remote, "[engine]\nremote=true\n")
	write(t, filepath.Join(dir, "podman-connections.json"),
		`{"Connection":{"Default":"vm","Connections":{"vm":{"URI":"ssh://core@127.0.0.1:1/y","Identity":"/vm","IsMachine":true}}}}`)
	for _, test := range []struct {
		name   string
		config Config
		want   endpoint
	}{
		{"config", Config{Host: "unix:///a", Environ: []string{"CONTAINER_HOST=unix:///b"}}, endpoint{url: "unix:///a", named: true}},
		{"environment", Config{Environ: []string{"CONTAINER_HOST=ssh://u@h/b", "CONTAINER_SSHKEY=/k"}},
			endpoint{url: "ssh://u@h/b", identity: "/k", named: true}},
		{"named", Config{Environ: []string{"CONTAINER_CONNECTION=old", "CONTAINERS_CONF=" + conf}},
			endpoint{url: "ssh://old@a.example/x", identity: "/key", named: true}},
		{"remote", Config{Environ: []string{"CONTAINERS_CONF=" + remote}}, endpoint{url: "ssh://core@127.0.0.1:1/y", identity: "/vm",
			machine: true, named: true}},
		{"session", Config{Environ: []string{"CONTAINERS_CONF=" + conf, "XDG_RUNTIME_DIR=/r"}}, endpoint{url: "unix:///r/podman/podman.sock"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, one := range test.config.Environ { // the library reads this process's environment
				name, value, _ := strings.Cut(one, "=")
				t.Setenv(name, value)
			}
			t.Setenv("PODMAN_CONNECTIONS_CONF", filepath.Join(dir, "podman-connections.json"))
			if test.name == "session" && (os.Geteuid() == 0 || runtime.GOOS != "linux") {
				test.want.url = "unix:///run/podman/podman.sock"
				if runtime.GOOS != "linux" {
					t.Skip("an active connection is used here")
				}
			}
			places, err := New(test.config).(*Engine).findEndpoints()
			if err != nil || len(places) != 1 {
				t.Fatalf("got %v, %v", places, err)
			}
			places[0].source = ""
			if places[0] != test.want {
				t.Errorf("got %+v, want %+v", places[0], test.want)
			}
		})
	}
	t.Setenv("CONTAINERS_CONF", conf)
	if _, err := New(Config{Environ: []string{"CONTAINER_CONNECTION=none", "CONTAINERS_CONF=" + conf}}).Info(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `"none"`) {
		t.Errorf("a connection that is not there: %v", err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNobody checks the remedy if no service answers.
func TestNobody(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name   string
		err    error
		url    string
		remedy string
	}{
		{"no socket", syscall.ENOENT, "unix://" + dir + "/none", startRemedy(os.Geteuid()).String()},
		{"not listening", syscall.ECONNREFUSED, "unix://" + dir + "/none", startRemedy(os.Geteuid()).String()},
		{"forbidden", syscall.EACCES, "unix:///run/podman/podman.sock", "use one of your own: systemctl --user enable --now podman.socket"},
		{"ssh", errors.New("no route"), "ssh://u:secret@h.example/x", "try: podman --url ssh://u:xxxxx@h.example/x info"},
	} {
		r := (*backends.Refusal)(nil)
		if err := (endpoint{url: test.url}).unreachableError(test.err); !errors.As(err, &r) || r.Remedy.String() != test.remedy {
			t.Errorf("%s: got %+v, want the remedy %q", test.name, err, test.remedy)
		}
	}
	_, err := New(Config{Host: "unix://" + dir + "/none"}).Info(t.Context())
	if r := (*backends.Refusal)(nil); !errors.As(err, &r) {
		t.Errorf("got %v, want a refusal", err)
	}
	_, err = New(Config{Environ: []string{"XDG_RUNTIME_DIR=" + dir, "HOME=" + dir, "PATH=" + dir}}).Info(t.Context())
	if r := (*backends.Refusal)(nil); runtime.GOOS == "linux" && os.Geteuid() != 0 &&
		(!errors.As(err, &r) || !strings.Contains(r.Reason, "not installed")) {
		t.Errorf("got %v, want a refusal that it is not installed", err)
	}
}

// TestMayAsk checks that the library can't read a password from our standard input.
func TestMayAsk(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	if err := (endpoint{url: "ssh://u@h.example/x"}).checkKey(); err == nil {
		t.Error("no key, no agent, no password: it would ask")
	}
	if err := (endpoint{url: "ssh://u:word@h.example/x"}).checkKey(); err != nil {
		t.Error(err)
	}
	if err := (endpoint{url: "unix:///x"}).checkKey(); err != nil {
		t.Error(err)
	}
}
