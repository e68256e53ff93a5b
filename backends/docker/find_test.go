package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// isRefusal reports whether an error is a refusal that contains this reason and remedy.
func isRefusal(err error, reason, remedy string) bool {
	var r *backends.Refusal
	return errors.As(err, &r) && strings.Contains(r.Reason, reason) && strings.Contains(r.Remedy.String(), remedy)
}

// writeFile writes a file and makes its parent directories.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withContext writes a Docker context.
func withContext(t *testing.T, dir, name, host string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	writeFile(t, filepath.Join(dir, "contexts/meta", id, "meta.json"), `{"Name":"`+name+`","Endpoints":{"docker":{"Host":"`+host+`"}}}`)
	return id
}

// TestFind checks that the sources of the engine's address have the order of Docker's command.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	withContext(t, dir, "work", "tcp://work:1")
	withContext(t, dir, "home", "tcp://home:1")
	writeFile(t, filepath.Join(dir, "config.json"), `{"currentContext":"home"}`)
	config := "DOCKER_CONFIG=" + dir
	for _, c := range []struct {
		name    string
		host    string
		environ []string
		want    string
	}{
		{"config", "tcp://config:1", []string{config, "DOCKER_HOST=tcp://host:1", "DOCKER_CONTEXT=work"}, "tcp://config:1"},
		{"DOCKER_HOST", "", []string{config, "DOCKER_HOST=tcp://host:1", "DOCKER_CONTEXT=work"}, "tcp://host:1"},
		{"the last of several", "", []string{"DOCKER_HOST=tcp://a:1", "DOCKER_HOST=tcp://host:1"}, "tcp://host:1"},
		{"DOCKER_CONTEXT", "", []string{config, "DOCKER_CONTEXT=work"}, "tcp://work:1"},
		{"current context", "", []string{config}, "tcp://home:1"},
	} {
		p, err := findEndpoint(t.Context(), Config{Host: c.host, Environ: c.environ})
		if err != nil || p.Host != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, p.Host, err, c.want)
		}
	}
	if _, err := findEndpoint(t.Context(), Config{Environ: []string{config, "DOCKER_CONTEXT=../../etc"}}); !isRefusal(err, "no Docker context",
		"docker context ls") {
		t.Errorf("a context that there is not: got %v", err)
	}
	for _, host := range []string{"docker.sock", "unix://", "ftp://x", "://"} {
		if p, err := findEndpoint(t.Context(), Config{Host: host, Environ: []string{}}); err == nil {
			t.Errorf("%s: got %+v", host, p)
		}
	}
	writeFile(t, filepath.Join(dir, "config.json"), `{"currentContext":`)
	if _, err := findEndpoint(t.Context(), Config{Environ: []string{config}}); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a broken configuration: got %v", err)
	}
}

// TestCertificates checks certificates from variables and contexts; requested but broken ones are an error.
func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	host := "tcp://" + server.Listener.Addr().String()
	bare, ours, broken := t.TempDir(), t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(ours, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	writeFile(t, filepath.Join(broken, "ca.pem"), "nothing")
	id := withContext(t, ours, "work", host)
	writeFile(t, filepath.Join(ours, "contexts/tls", id, "docker/ca.pem"),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for name, c := range map[string]struct {
		host    string
		environ []string
		want    string
	}{
		"none":        {host, []string{"DOCKER_CONFIG=" + bare}, "HTTP request to an HTTPS server"},
		"verify":      {host, []string{"DOCKER_CONFIG=" + bare, "DOCKER_TLS_VERIFY=1"}, "unknown authority"},
		"only path":   {host, []string{"DOCKER_CERT_PATH=" + bare}, "unknown authority"},
		"configured":  {host, []string{"DOCKER_CONFIG=" + ours, "DOCKER_TLS_VERIFY=1"}, "404"},
		"known":       {host, []string{"DOCKER_CERT_PATH=" + ours}, "404"},
		"context":     {"", []string{"DOCKER_CONFIG=" + ours, "DOCKER_CONTEXT=work"}, "404"},
		"broken path": {host, []string{"DOCKER_CERT_PATH=" + broken}, "ca.pem"},
	} {
		p, err := findEndpoint(t.Context(), Config{Host: c.host, Environ: c.environ})
		if err != nil {
			t.Fatal(name, err)
		}
		options, err := p.options()
		if err == nil {
			var l *client.Client
			if l, err = client.New(options...); err != nil {
				t.Fatal(name, err)
			}
			defer l.Close()
			_, err = l.Info(t.Context(), client.InfoOptions{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func endpointAt(host string) (p endpoint) {
	p.Host = host
	return p
}

// TestSockets checks that, if no socket answers, the error is about the one closest to working and has its remedy.
func TestSockets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has a pipe")
	}
	home, err := os.MkdirTemp("/tmp", "home") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	environ := []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + home}
	paths := backends.DockerSockets(func(name string) string { return lookupVariable(environ, name) }, os.Getuid())
	if want := filepath.Join(home, "docker.sock"); paths[0] != want || !slices.Contains(paths, "/run/docker.sock") ||
		!slices.Contains(paths, home+"/.docker/run/docker.sock") {
		t.Errorf("got %q, want %q first", paths, want)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: paths[0], Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := findSocket(t.Context(), environ); err != nil || got != "unix://"+paths[0] {
		t.Errorf("one that answers: got %q, %v", got, err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := endpointAt("unix://" + paths[0]).check(t.Context()); !isRefusal(err, "not running", "start") &&
		!isRefusal(err, "not running", "open -a") {
		t.Errorf("nobody listens: got %v", err)
	}
	if err := endpointAt("unix://" + home + "/none").check(t.Context()); !isRefusal(err, "there is no socket", "backend") {
		t.Errorf("no socket: got %v", err)
	}
	if err := refuseSocket("/s", os.ErrPermission); !isRefusal(err, "may not use", "usermod -aG docker") {
		t.Errorf("forbidden: got %v", err)
	}
}

// fakeEngine returns an engine with an API version or behaviour that no real engine here has.
func fakeEngine(t *testing.T, api, version string) *docker {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", api)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/version") {
			_, _ = w.Write([]byte(version))
		} else if strings.HasSuffix(r.URL.Path, "/info") {
			_, _ = w.Write([]byte(`{"OSType":"windows"}`))
		}
	}))
	t.Cleanup(s.Close)
	return New(Config{Host: strings.Replace(s.URL, "http://", "tcp://", 1), Environ: []string{}}).(*docker)
}

func TestRefusedEngines(t *testing.T) {
	for _, c := range []struct{ name, api, version, reason, remedy string }{
		{"ancient", "1.24", "{}", "too old", "20.10"},
		{"19.03", "1.40", "{}", "too old", "20.10"},
		{"Podman", "1.41", `{"Components":[{"Name":"Podman Engine"}]}`, "is Podman", "--backend podman"},
		{"Windows", "1.51", "{}", "for windows", "Linux containers"},
	} {
		e := fakeEngine(t, c.api, c.version)
		if _, err := e.Info(t.Context()); !isRefusal(err, c.reason, c.remedy) {
			t.Errorf("%s: got %v", c.name, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	gone := New(Config{Host: "tcp://127.0.0.1:1", Environ: []string{}})
	if _, err := gone.Info(context.Background()); !isRefusal(err, "does not answer", "docker -H") {
		t.Errorf("nobody there: got %v", err)
	}
}

// TestExplain checks that an engine's messages can't control a terminal, and that their error kinds survive.
func TestExplain(t *testing.T) {
	cause := errors.New("no \x1b[31mroom\u202e\n")
	err := (&link{}).explain("do it", cause)
	if !errors.Is(err, cause) || err.Error() != "do it: no [31mroom" {
		t.Errorf("got %q", err)
	}
}

func TestSSHArgs(t *testing.T) {
	for address, want := range map[string]string{
		"ssh://host":                       "-- host docker system dial-stdio",
		"ssh://me@host:2222":               "-l me -p 2222 -T -o BatchMode=yes -o ConnectTimeout=20 -- host docker system dial-stdio",
		"ssh://me@host/run/my/docker.sock": "-- host docker --host unix:///run/my/docker.sock system dial-stdio",
		"ssh://[::1]/":                     "-- ::1 docker system dial-stdio",
		"ssh://-oProxyCommand=id":          "-- '-oProxyCommand=id' docker system dial-stdio",
		"ssh://host/a;id":                  "-- host docker --host 'unix:///a;id' system dial-stdio",
		"ssh://host/$(id)":                 "-- host docker --host 'unix:///$(id)' system dial-stdio",
	} {
		args, err := sshArgs(address)
		if got := strings.Join(args, " "); err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %q, %v, want %q", address, got, err, want)
		}
	}
	for _, address := range []string{"ssh://", "ssh://me:" + "hunter@host", "ssh://me:" + "hunter@host:-1", "ssh://host?x=1", "ssh://host#x"} {
		if args, err := sshArgs(address); err == nil {
			t.Errorf("%s: got %q", address, args)
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: the password is in %v", address, err)
		}
	}
}
