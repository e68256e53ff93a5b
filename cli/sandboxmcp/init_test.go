package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Bounds for allocations before main, in bytes: every command pays for them. The numbers vary by a few hundred bytes
// between starts, and little between versions of Go.
const (
	maxInit        = 2600 << 10 // of all packages, 420 of them for client-go
	maxLibraryInit = 24 << 10   // of one package of a library
	maxOurInit     = 8 << 10    // of one package of ours
)

// expensiveInits are packages of libraries that allocate more and are required. Replacing one of these, or a version that
// builds its tables on demand, saves as much time as memory.
func expensiveInits() map[string]string {
	return map[string]string{
		"github.com/distribution/reference":          "names of images: the client of Docker",
		"github.com/elastic/go-seccomp-bpf/arch":     "numbers of system calls: the filter",
		"github.com/evanw/esbuild/internal/compat":   "JavaScript and TypeScript: validate",
		"codeberg.org/readeck/go-readability/v2":     "articles: fetch_webpage",
		"github.com/google/jsonschema-go/jsonschema": "types of the protocol: mcp-go",
		"github.com/ledongthuc/pdf":                  "names of glyphs: fetch_webpage",
		"github.com/opencontainers/go-digest":        "the client of Docker",
		"github.com/russross/blackfriday/v2": "manual pages, which nobody asks for: urfave/cli has them unless it is built with its " +
			"tag urfave_cli_no_docs",
		"go.yaml.in/yaml/v3":                           "the configuration",
		"go.yaml.in/yaml/v2":                           "kubeconfig files: client-go, as all of the next",
		"k8s.io/apimachinery/pkg/api/meta":             "client-go",
		"k8s.io/apimachinery/pkg/api/validate/content": "client-go",
		"k8s.io/apimachinery/pkg/apis/meta/v1":         "client-go",
		"k8s.io/apimachinery/pkg/util/validation":      "client-go",
		"k8s.io/client-go/features":                    "client-go",
		"k8s.io/client-go/plugin/pkg/client/auth/exec": "credentials of clusters by a program, as clouds have them",
		"golang.org/x/net/html":                        "pages: fetch_webpage, pip's index",
	}
}

// TestInitialised checks the allocations of all packages of the program, and of this test, when it starts.
func TestInitialised(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var order []string
	all, dear := 0, expensiveInits()
	for l := range strings.Lines(string(out)) {
		words := strings.Fields(l) // init PATH @1.2 ms, 0.1 ms clock, 1024 bytes, 7 allocs
		if len(words) < 11 || words[0] != "init" {
			continue
		}
		path := words[1]
		bytes, err := strconv.Atoi(words[7])
		if err != nil {
			t.Fatal(l)
		}
		order = append(order, path)
		all += bytes
		limit := maxLibraryInit
		if strings.HasPrefix(path, "github.com/sandboxmcp/sandboxmcp/") {
			limit = maxOurInit
		}
		if _, known := dear[path]; known && bytes <= limit {
			t.Errorf("%s allocates only %d bytes: take it out of the list", path, bytes)
		} else if bytes > limit && !known {
			t.Errorf("each start has %s allocate %d bytes, want at most %d: have it make its tables when they are first needed, or go mod why "+
				"says who needs it", path, bytes, limit)
		}
		// were in the program, where little of them was used
		for _, heavy := range []string{"github.com/santhosh-tekuri/jsonschema", "google.golang.org/grpc"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("the program has %s again: go mod why -m says by whom", path)
			}
		}
	}
	if len(order) < 100 || all > maxInit {
		t.Errorf("%d packages allocate %d bytes before main, want at most %d", len(order), all, maxInit)
	}
	// A sandbox's launcher is this program, too, and initialises only its own package.
	const launch = "github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	if i := slices.Index(order, launch); i < 0 || i > 25 {
		t.Errorf("%s comes %dth, want it among the first 25: after %s", launch, i, strings.Join(order[:max(i, 0)], " "))
	}
}
