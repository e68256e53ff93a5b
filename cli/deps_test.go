package cli_test

import (
	"errors"
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

const module = "github.com/sandboxmcp/sandboxmcp/"

// mayImport lists the imports that each package may have: the stages are independent of each other, the pipeline
// imports the stages, and only cli knows the implementations of their interfaces. Paths are inside the module; a/... is
// a and everything below it. The first row that matches a package counts; a package without a row may import nothing of
// the module.
var mayImport = []struct {
	who  string
	whom []string
}{
	{"validate/diff", nil},
	{"validate/spelling", nil},
	{"validate/...", []string{"validate/..."}},
	{"vault/keyring/keyringtest", []string{"backends/hosttest"}}, // only tests import it
	{"vault/...", []string{"vault/..."}},
	{"signer/...", []string{"signer/...", "backends"}}, // for the exit status of a program
	{"audit/safetext", nil},
	{"audit/statefile", nil},
	{"audit/...", []string{"audit/..."}},
	{"egress", []string{"egress/relay"}},
	{"egress/relay", nil},
	{"egress/tlstest", nil}, // only tests import it
	{"egress/web/browser", nil},
	{"egress/web/page", nil}, // the parser in a sandbox connects to nothing
	{"egress/web/engine", []string{"egress/web/page"}},
	{"egress/web/reader", []string{"egress/web/engine", "egress/web/page"}},
	{"egress/web", []string{"egress", "egress/web/engine", "egress/web/reader"}},
	{"backends", nil},
	{"backends/duplex", nil},
	{"backends/hostfs", nil},
	{"backends/paths", nil},
	{"backends/snapshot", nil},
	{"backends/cgroup", nil},
	{"backends/pool", []string{"backends"}}, // idle sandboxes and containers: the same decisions
	{"backends/hosttest", nil},              // only tests import it
	{"backends/podman/...", []string{"backends", "backends/podman/...", "backends/container/..."}},
	{"backends/docker/...", []string{"backends", "backends/docker/...", "backends/container/..."}},
	{"backends/kubernetes", []string{"backends", "backends/container", "backends/container/engine"}},
	// PID 1 runs the one in the other
	{"backends/container/inside", []string{"backends", "backends/container/call", "backends/process/..."}},
	// only tests import it
	{"backends/container/enginetest", []string{"backends", "backends/container", "backends/backendtest", "backends/hosttest"}},
	{"backends/container/...", []string{"backends", "backends/hostfs", "backends/pool", "backends/snapshot", "backends/container/..."}},
	{"backends/process/launch", nil}, // the child's first code stays light
	{"backends/process/seccomp", nil},
	{"backends/process/procfs", nil},
	{"backends/process/notify", nil},
	{"backends/process/files", []string{"backends", "backends/snapshot"}},
	{"backends/process/share", []string{"backends"}},
	{"backends/process/templates", nil},
	{"backends/process/runtimes", []string{"backends"}},
	{"backends/process/zygote", []string{"backends/process/launch"}},
	// not warm
	{"backends/process", []string{"backends", "backends/cgroup", "backends/hostfs", "backends/snapshot", "backends/process/files",
		"backends/process/launch", "backends/process/notify", "backends/process/procfs", "backends/process/runtimes", "backends/process/seccomp",
		"backends/process/share", "backends/process/templates"}},
	{"backends/process/...", []string{"backends", "backends/cgroup", "backends/pool", "backends/process/..."}},
	{"backends/kernel/...", []string{"backends", "backends/kernel/...", "validate/notebook"}},
	{"backends/guest", []string{"backends"}}, // asks any backend's sandbox to execute itself
	{"backends/backendtest/...", []string{"backends", "backends/hosttest", "backends/backendtest/..."}},
	{"pipeline/event", nil},
	{"pipeline/remedy", nil},
	{"pipeline/door", nil},
	{"pipeline/operation", []string{"audit/safetext", "validate/spelling", "pipeline/door"}},
	{"pipeline/identity", []string{"pipeline/door"}}, // it gets the identity
	{"pipeline/host/launch", []string{"cli/role"}},   // each command on the host starts with it
	{"pipeline/host/trap", nil},
	{"pipeline/host/files", []string{"backends", "pipeline/host/trap"}},
	{"pipeline/changes", []string{"backends", "pipeline/host/trap"}}, // which knows nothing of sandboxes
	{"pipeline/host", []string{"backends", "backends/cgroup", "pipeline", "pipeline/approval", "pipeline/host/files", "pipeline/host/launch",
		"pipeline/results",
		"pipeline/session", "vault"}},
	{"pipeline/output", []string{"backends/kernel"}},
	// only tests import it
	{"pipeline/pipelinetest", []string{"audit", "backends", "backends/hosttest", "backends/process", "egress", "pipeline/...", "signer",
		"vault"}},
	{"pipeline", []string{"audit", "backends", "backends/guest", "backends/kernel", "egress", "pipeline/approval", "pipeline/changes",
		"pipeline/event", "pipeline/identity",
		// but no package whose effects it records
		"pipeline/output", "pipeline/packages", "pipeline/results", "signer", "vault", "vault/tokens"}},
	{"pipeline/approval/notify", []string{"pipeline/approval"}},
	// a client of the API
	{"pipeline/page", []string{"audit", "audit/export", "audit/facts", "backends/kernel", "pipeline", "pipeline/approval", "pipeline/changes",
		"pipeline/control", "pipeline/door", "pipeline/event", "pipeline/identity", "pipeline/session"}},
	{"pipeline/control", []string{"audit", "audit/facts", "backends", "backends/guest", "backends/kernel", "pipeline", "pipeline/...",
		"signer", "validate"}},
	{"pipeline/...", []string{"validate", "validate/notebook", "vault", "vault/tokens", "egress", "egress/relay", "egress/web/...", "backends",
		"backends/kernel", "backends/guest", "signer", "audit", "pipeline/..."}},
	{"mcp/rpc", []string{"pipeline/door", "pipeline/identity", "pipeline/operation"}}, // it knows no tools
	{"mcp/...", []string{"mcp/...", "pipeline/...", "validate", "validate/notebook", "egress", "egress/web", "backends", "backends/kernel",
		"backends/guest", "signer", "audit"}},
	{"cli/bench", []string{"backends/process/runtimes"}},
	{"cli/role", nil},
	{"cli/complete", nil},
	{"cli/lazy", nil},
	{"cli/memory", nil},
	{"cli/version", nil},
	{"cli/ptytest", []string{"backends/hosttest"}}, // only tests import it
	{"cli/exit", []string{"backends", "pipeline"}},
	{"cli/command", []string{"cli/exit", "cli/terminal", "signer"}},
	{"cli/terminal", []string{"cli/lazy"}},
	{"cli/cmdline", []string{"cli/exit", "cli/lazy", "cli/terminal"}},
	{"cli/auditrows", []string{"audit/...", "cli/exit", "cli/terminal"}},
	{"cli/console", []string{"cli/terminal", "pipeline", "pipeline/approval", "pipeline/control", "pipeline/run"}},
	{"cli/manual", nil},
	{"cli/config", nil},
	{"cli/markdowntest", nil}, // only tests import it
	{"cli/setup", []string{"cli/command", "cli/config", "cli/exit", "cli/terminal"}},
	{"cli/agent", []string{"backends", "backends/paths", "cli/...", "egress", "pipeline", "pipeline/packages", "pipeline/run", "vault", "vault/tokens"}},
	{"cli/run", []string{"backends", "backends/container", "backends/paths", "cli/...", "egress", "pipeline", "pipeline/changes",
		"pipeline/control", "pipeline/run", "pipeline/workspace", "signer", "validate"}},
	{"cli/changes", []string{"backends/paths", "cli/...", "pipeline", "pipeline/changes", "pipeline/workspace"}},
	{"cli/client", []string{"audit", "audit/facts", "backends", "backends/guest", "backends/kernel", "cli/...", "egress", "pipeline",
		"pipeline/..."}},
	{"cli/outside", []string{"backends", "cli/...", "egress", "egress/web/...", "pipeline", "pipeline/..."}},
	{"cli/wiring", []string{"..."}},
	{"cli/machine", []string{"audit", "backends/...", "cli/...", "egress/web/browser", "pipeline", "pipeline/containment",
		"pipeline/control"}},
	{"cli/evidence", []string{"audit/...", "cli/...", "pipeline/changes", "pipeline/event", "pipeline/results", "signer"}},
	{"cli/backup", []string{"audit", "audit/checkpoint", "cli/...", "pipeline/event", "pipeline/identity", "vault"}},
	{"cli/secrets", []string{"audit", "cli/...", "egress", "pipeline/event", "pipeline/identity", "vault"}},
	{"cli/sandboxmcp", []string{"cli", "backends/process/...", "backends/container/inside"}},
	{"cli", []string{"..."}},
}

// leaves are the packages that any other may import.
var leaves = []string{"audit/safetext", "audit/statefile", "backends/duplex", "backends/hostfs", "backends/paths", "cli/lazy", "cli/role",
	"pipeline/remedy", "validate/diff", "validate/spelling"}

// light are the packages that import only the leaves in their rows, since each process that we start begins with them.
var light = []string{"backends/process/launch", "pipeline/host/launch"}

// inTests lists further imports that tests may have: the attacks that all backends share, and a real sandbox for
// packages that run programs.
var inTests = []struct {
	who  string
	whom []string
}{
	{"...", []string{"backends/hosttest", "egress/tlstest"}},
	{"backends/...", []string{"backends/backendtest/..."}},
	{"backends/kernel/...", []string{"backends/process/..."}},
	{"backends/guest", []string{"backends/process/..."}},
	{"backends/container/...", []string{"backends/process/...", "backends/podman/...", "backends/docker/..."}},
	{"backends/container/call", []string{"backends/kernel"}}, // tests that cells are told apart in one output, even if parts are missing
	{"backends/docker/...", []string{"backends/process/..."}},
	// tests the order of callers that wait for pods in a full namespace
	{"backends/kubernetes", []string{"backends/container/...", "pipeline"}},
	{"backends/podman/...", []string{"backends/process/..."}},
	{"egress/egresstest", []string{"backends/container/enginetest"}},
	{"pipeline/...", []string{"backends/process/...", "backends/backendtest/..."}},
	{"pipeline/host", []string{"audit", "pipeline/pipelinetest"}},
	{"pipeline/control", []string{"vault"}},
	// tests need a server behind the page
	{"pipeline/page", []string{"audit/checkpoint", "backends", "pipeline/door", "pipeline/results", "pipeline/run", "pipeline/workspace",
		"signer", "validate"}},
	{"mcp/...", []string{"backends/process/...", "backends/backendtest", "vault/...", "egress/web/browser", "egress/web/reader"}},
	{"cli/...", []string{"..."}},
}

func matchesPattern(pattern, pkg string) bool {
	parent, subtree := strings.CutSuffix(pattern, "...")
	return pkg == strings.TrimSuffix(parent, "/") || subtree && strings.HasPrefix(pkg, parent)
}

// isForbidden reports whether the tables have no row for an import. Paths are inside the module.
func isForbidden(who, whom string, test bool) bool {
	allows := func(list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool { return matchesPattern(p, whom) })
	}
	if slices.Contains(leaves, whom) && !slices.Contains(light, who) {
		return false
	}
	for _, row := range inTests {
		if test && matchesPattern(row.who, who) && allows(row.whom) {
			return false
		}
	}
	for _, row := range mayImport {
		if matchesPattern(row.who, who) {
			return !allows(row.whom)
		}
	}
	return true
}

// TestForbidden tests the function on rows of the tables.
func TestForbidden(t *testing.T) {
	tests := []struct {
		who, whom  string
		test, want bool
	}{
		{"pipeline", "vault", false, false},
		{"pipeline", "pipeline/event", false, false},
		{"pipeline/session", "pipeline/event", false, false},
		{"pipeline", "backends/process", false, true},
		{"pipeline", "backends/process", true, false},
		{"pipeline", "cli/config", true, true},
		{"vault", "backends/process", true, true},
		{"pipeline/event", "pipeline", false, true},
		{"vault", "audit", false, true},
		{"vault", "vault/sealed", false, false},
		{"vaulted", "vault", false, true}, // a directory that is not in the table
		{"backends", "backends/process", false, true},
		{"backends", "backends/backendtest", true, false},
		{"egress", "egress/web", false, true},
		{"backends/process", "backends", false, false},
		{"backends/process", "backends/process/launch", false, false},
		{"backends/process/launch", "backends", false, true},
		{"backends/process", "backends/docker", false, true},
		{"backends/process", "backends/backendtest", false, true},
		{"backends/process", "backends/backendtest", true, false},
		{"backends/docker", "backends/container/image", false, false},
		{"mcp", "cli", false, true},
		{"mcp", "backends/process", false, true},
		{"cli", "mcp", false, false},
		{"cli/config", "backends", false, true},
		{"cli/sandboxmcp", "pipeline", false, true},
		{"vault", "audit/safetext", false, false},
		{"audit/safetext", "audit", false, true},
		{"pipeline/host/launch", "audit/safetext", false, true},
	}
	for _, tt := range tests {
		if got := isForbidden(tt.who, tt.whom, tt.test); got != tt.want {
			t.Errorf("%s -> %s (test: %v): forbidden %v, want %v", tt.who, tt.whom, tt.test, got, tt.want)
		}
	}
}

// TestImports parses imports, for each system that we build for, so that it also checks packages that do not compile.
func TestImports(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		context := build.Context{GOOS: system, GOARCH: "amd64", Compiler: "gc", ReleaseTags: build.Default.ReleaseTags}
		packages := 0
		err := filepath.WalkDir("..", func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if name := d.Name(); name == "testdata" || name != ".." && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			p, err := context.ImportDir(dir, 0)
			if _, none := errors.AsType[*build.NoGoError](err); none {
				return nil
			}
			packages++
			who := filepath.ToSlash(strings.TrimPrefix(dir, ".."+string(filepath.Separator)))
			reportForbidden(t, system, who, p.Imports, false)
			reportForbidden(t, system, who, slices.Concat(p.TestImports, p.XTestImports), true)
			return err
		})
		if err != nil || packages < 40 {
			t.Errorf("%s: %d packages, %v", system, packages, err)
		}
	}
}

func reportForbidden(t *testing.T, system, who string, imports []string, test bool) {
	t.Helper()
	for _, i := range imports {
		whom, ours := strings.CutPrefix(i, module)
		if ours && whom != who && isForbidden(who, whom, test) {
			t.Errorf("%s imports %s (in a test: %v, on %s): the table of who imports whom has no place for it", who, whom, test, system)
		}
	}
}

// TestConfigRepeats compares the names that config repeats, since it imports no other package of the module.
func TestConfigRepeats(t *testing.T) {
	layers := append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit)
	if got := config.Layers(); !slices.Equal(got, layers) {
		t.Errorf("layers: got %v, want %v", got, layers)
	}
	c, err := config.Load(config.Options{Env: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Profiles[config.Hardened].Require; !slices.Equal(got, backends.ContainmentLayers) {
		t.Errorf("hardened requires %v, want %v", got, backends.ContainmentLayers)
	}
	got := backends.Limits{
		RAM:       c.Limits.RAMMB << 20,
		Wall:      c.Limits.Timeout(),
		CPU:       c.Limits.CPUCores,
		Processes: int(c.Limits.Processes),
		Disk:      c.Limits.DiskMB << 20,
	}
	if got != backends.DefaultLimits {
		t.Errorf("limits: got %+v, want %+v", got, backends.DefaultLimits)
	}
}
