package egresstest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// withEngine returns a world whose runs are in containers of an engine. The image has this machine's Python and
// Node, and none of its other programs. It does not trust the test's authority, which a mount adds; flags are a
// run's flags for that.
func withEngine(t *testing.T, engine func(testing.TB) string, pages map[string]http.Handler) (w *world, flags []string) {
	t.Helper()
	requirePrograms(t)
	url := engine(t)
	image := enginetest.Image(t, url, enginetest.Plain)
	w = newWorld(t, pages)
	kind := strings.TrimSuffix(url[strings.LastIndex(url, "/")+1:], ".sock")
	w.env = []string{"SANDBOXMCP_BACKEND=" + kind, "DOCKER_HOST=" + url, "CONTAINER_HOST=" + url}
	for _, language := range []string{"PYTHON", "NODE", "SHELL"} {
		w.env = append(w.env, "SANDBOXMCP_IMAGE_"+language+"="+image)
	}
	const file = "/certs/ca-certificates.crt"
	return w, []string{"--mount", w.path("certs") + ":/certs", "--env", "SSL_CERT_FILE=" + file, "--env", "NODE_EXTRA_CA_CERTS=" + file}
}

// engines are the engines that this machine may have.
var engines = map[string]func(testing.TB) string{"docker": enginetest.Docker, "podman": enginetest.Podman}

// TestRefusedInContainers runs the attacks in containers, whose only network is the gateway, too.
func TestRefusedInContainers(t *testing.T) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			w, trust := withEngine(t, engine, nil)
			w.refuses(t, "", hosttest.Rounds(0, 1) == 1, append(attackable(), trust...)...)
		})
	}
}

// TestAllowedInContainers runs the programs that need no more than the image has.
func TestAllowedInContainers(t *testing.T) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			w, trust := withEngine(t, engine, nil)
			var allow []string
			for _, name := range []string{"example.test", "v6.test", "both.test", "alias.test", "front.test", "echo.test:7000"} {
				allow = append(allow, "--allow", name)
			}
			for script, lines := range map[string]int{"web.py": 11, "web.mjs": 5} {
				w.takeEvents()
				r := w.run("", script, append(allow, trust...)...)
				for line := range strings.Lines(r.Stdout) {
					if !strings.HasSuffix(line, ": ok\n") && !strings.HasPrefix(line, "requests_of_pip: ModuleNotFoundError") {
						t.Errorf("%s: %s", script, line)
					}
				}
				if strings.Count(r.Stdout, "\n") != lines {
					t.Errorf("%s ended %s, %+v, stdout %s, stderr %s", script, r.Ended, r.Refused, r.Stdout, r.Stderr)
				}
				w.stays(t, w.takeEvents(), allow)
				if script == "web.py" {
					w.checkAccounting(t, r)
				}
			}
		})
	}
}

// secretInContainers tries a bound secret without any certificate setting: the image's bundles are covered.
const secretInContainers = `
cd /workspace
try() { name=$1; shift; if "$@" >log 2>&1; then echo "$name: ok"; else echo "$name: exit $?: $(tail -n 3 log)"; fi; }
for way in urllib client websocket; do try $way python3 secret.py $way; done
for way in fetch https http2; do try $way node secret.mjs $way; done
try placeholder bash -c '[[ $API_KEY == sandboxmcp_* ]]'
try file grep -q CERTIFICATE /run/sandbox/trust.pem
try variable test "$SSL_CERT_FILE" = /run/sandbox/trust.pem
try bundle bash -c '[[ $(sha256sum </etc/ssl/certs/ca-certificates.crt) == $(sha256sum </run/sandbox/trust.pem) ]]'
try read-only bash -c '! (echo x >>/run/sandbox/trust.pem) 2>/dev/null'
`

// TestSecretInContainers leases a bound secret to programs in containers.
func TestSecretInContainers(t *testing.T) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			a := &api{value: newValue()}
			w, _ := withEngine(t, engine, map[string]http.Handler{bound: a.listen(bound, a.ownHandlers()),
				"front.test": a.listen("front.test", http.NotFoundHandler())})
			w.bind(t, "", "API_KEY", a.value, "--host", bound)
			code := w.write("secret_engines.sh", secretInContainers)
			out, errs, err := w.runAndLog(w.onHost("", w.program, "run", "--json", "--processes", "100", "--ram", "1500", code, "--secret",
				"API_KEY", "--allow", bound,
				"--allow", "front.test", "--input", w.copyOf("testdata/secret.py"), "--input", w.copyOf("testdata/secret.mjs")))
			r := parse(t, out)
			for line := range strings.Lines(r.Stdout) {
				if !strings.HasSuffix(line, ": ok\n") {
					t.Errorf("%s", line)
				}
			}
			if strings.Count(r.Stdout, "\n") != 11 {
				t.Errorf("ended %s, %+v, %v: %s%s%s", r.Ended, r.Refused, err, r.Stdout, r.Stderr, errs)
			}
			for _, h := range a.takeRequests() {
				if has := strings.Contains(h.all(), a.value); has != (h.name == bound) {
					t.Errorf("%s has the value: %v: %.300q", h.name, has, h.all())
				}
			}
			w.cleanRun(t, "", r, a.value)
		})
	}
}
