package mcp

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
)

// newPermitting returns a server on which people approve packages. Its package index is unreachable.
func newPermitting(t *testing.T) *rig {
	t.Setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
	return newRig(t, func(cfg *Config) {
		cfg.User = "ada"
		dir := t.TempDir()
		store, err := packages.Open(packages.Config{Dir: filepath.Join(dir, "packages")})
		if err != nil {
			t.Fatal(err)
		}
		backend := process.New(process.Config{StateDir: filepath.Join(dir, "state")})
		cfg.Pipeline = pipeline.New(pipeline.Config{
			Backends: []backends.Backend{backend}, Audit: cfg.Log.(*audit.Log), Approvals: cfg.Approvals, Packages: store,
			AskPackages: true,
		})
		t.Cleanup(func() {
			cfg.Pipeline.Close()
			backend.Close()
			store.Close()
		})
	})
}

func TestPackagesAreApproved(t *testing.T) {
	r := newPermitting(t)
	schema := outputs(t, r.hello("2025-11-25", `{}`))["install_package"]
	install := func(names string) string {
		return fmt.Sprintf(`{"name":"install_package","arguments":{"packages":[%s],"namespace":"n"}}`, names)
	}
	rows := func() (n int) {
		for row, err := range r.cfg.Log.Rows(t.Context(), audit.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(row.Kind, "execution") {
				n++
			}
		}
		return n
	}
	t.Run("no dialogs", func(t *testing.T) {
		p := r.hello("2025-11-25", `{}`)
		got := p.read1(p.call("tools/call", install(`"a==1", "b"`)))
		checkConforms(t, "install_package", schema, got.Structured)
		response, _ := got.facts["approval"].(map[string]any)
		id, _ := response["approval_id"].(string)
		contains(t, got.text, "pending: nobody has answered yet whether python: a==1, b may be installed", "sandboxmcp approve "+id)
		if response["state"] != "pending" || rows() != 0 {
			t.Errorf("got %v, and %d rows of it", response, rows())
		}
		q := r.cfg.Approvals.Pending()[0]
		if q.Kind != approval.Package || q.What != "python: a==1, b" || q.Namespace != "n" || q.Client == "" {
			t.Errorf("a person is asked %+v", q)
		}
		if err := r.cfg.Approvals.Answer(t.Context(), id, approval.Answer{Allowed: true, By: approval.CommandLine(), User: "ada"}); err != nil {
			t.Fatal(err)
		}
		got = p.read1(p.call("tools/call", install(`"a==1", "b"`)))
		checkConforms(t, "install_package", schema, got.Structured)
		contains(t, got.text, "the package manager failed") // it has started, without a reachable index
		got = p.read1(p.call("tools/call", install(`"a==1", "b", "c"`)))
		contains(t, got.text, "pending", "a==1, b, c")
	})
	for response, want := range map[string]string{
		`{"action":"accept","content":{"decision":"deny"}}`:       "may not be installed: the user denied it",
		`{"action":"cancel"}`:                                     "pending: ",
		`{"action":"accept","content":{"decision":"allow_time"}}`: "the package manager failed",
	} {
		t.Run(response, func(t *testing.T) {
			p := r.hello("2025-06-18", `{"elicitation":{}}`)
			_, answer := p.start("tools/call", install(fmt.Sprintf(`"x%d"`, len(response))))
			q := p.wait(p.asks)
			message, choices := readDialog(t, q)
			contains(t, message, "install packages", fmt.Sprintf("Packages: python: x%d", len(response)), "Namespace: n", "Client: ")
			if len(choices) != 2 {
				t.Errorf("got %v", choices)
			}
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, response))
			contains(t, p.read1(p.wait(answer)).text, want)
		})
	}
	for row, err := range r.cfg.Log.Rows(t.Context(), audit.Filter{}) {
		if response := string(row.Data); err != nil || strings.Contains(response, `"by":"elicitation"`) &&
			!strings.Contains(response, `"user":"ada"`) {
			t.Errorf("%v, row %s does not say who answered: %s", err, row.Kind, response)
		}
	}
	t.Run("refused anyway", func(t *testing.T) {
		before := len(r.cfg.Approvals.Pending())
		p := r.hello("2025-11-25", `{}`)
		if got := p.read1(p.call("tools/call", install(`"--index-url=http://evil.example"`))); !got.IsError ||
			len(r.cfg.Approvals.Pending()) != before {
			t.Errorf("a person was asked: %s", got.text)
		}
	})
}

// TestInstalledPackages: list_runtimes lists the packages of install_package to their namespace only.
func TestInstalledPackages(t *testing.T) {
	if err := exec.Command("python3", "-m", "pip", "--version").Run(); err != nil {
		hosttest.SkipMissing(t, "pip", err.Error())
	}
	wheels := t.TempDir()
	wheel(t, wheels, "greeting")
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", wheels)
	r := newPermitting(t)
	p := r.hello("2025-11-25", `{}`)
	list := func(namespace string) string {
		return p.tool("list_runtimes", fmt.Sprintf(`{"namespace":%q}`, namespace)).text
	}
	if got := list("n"); strings.Contains(got, "greeting") {
		t.Errorf("before: %s", got)
	}
	ask := `{"packages":["greeting"],"namespace":"n"}`
	id := regexp.MustCompile(`sandboxmcp approve (\S+)`).FindStringSubmatch(p.tool("install_package", ask).text)
	if id == nil {
		t.Fatal("nobody is asked")
	}
	if err := r.cfg.Approvals.Answer(t.Context(), id[1], approval.Answer{Allowed: true, By: approval.CommandLine(), User: "ada"}); err != nil {
		t.Fatal(err)
	}
	contains(t, p.tool("install_package", ask).text, "installed 1 package")
	contains(t, list("n"), "; from install_package: greeting 1.0")
	if got := list("other"); strings.Contains(got, "greeting") {
		t.Errorf("another namespace: %s", got)
	}
}

// wheel creates an installable package.
func wheel(t *testing.T, dir, name string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name+"-1.0-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	info := name + "-1.0.dist-info/"
	for path, text := range map[string]string{
		name + ".py": "version = '1.0'\n", info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
		info + "WHEEL":  "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD": name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	} {
		w, err := z.Create(path)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}
