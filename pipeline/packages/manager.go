package packages

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Scripts for pip and npm. The ask scripts run on this host, the others in an install's sandbox.
var (
	//go:embed runpip.py
	pipScript string
	//go:embed ask.py
	askPip string
	//go:embed ask.js
	askNpm string
	//go:embed install.py
	installPython string
	//go:embed install.js
	installNode string
	//go:embed kind.py
	pythonKind string
	//go:embed kind.js
	nodeKind string
)

// manager is a language's package manager. ask and install run its scripts, and kind prints the kind of an
// interpreter.
type manager struct {
	program, missing, packaged string   // its name, the error if it is missing, and how to install it
	ask, install, kind         []string // their commands
	spec                       func() *regexp.Regexp
	example                    string // of specs
	directory                  string // part of a layer's content that sandboxes see
	inside, env                string // its path in sandboxes, and the variable with that path
}

// Python searches PYTHONPATH for modules, even in a virtual environment, which ignores the user's own directory. Two
// features of packages don't work this way: .pth files are ignored there, and programs of packages are not on the
// PATH (python -m works).
//
// Node's import and require search the node_modules of every directory above the program, up to the root. import has
// no other way; require uses NODE_PATH for programs elsewhere.
var managers = sync.OnceValue(func() map[string]manager {
	return map[string]manager{
		"python": {
			program: "pip", missing: "the Python that runs programs has no pip, and no wheel of pip to run it from",
			packaged: "apt install python3-pip, dnf install python3-pip, or python3 -m ensurepip",
			ask:      []string{"python3", "-c", pipScript + askPip}, install: []string{"python", "-I", "-c", pipScript + installPython},
			spec: pythonSpec, example: `"requests==2.32.3" or "uvicorn[standard]>=0.30,<1"`,
			kind: []string{"python", "-I", "-S", "-c", pythonKind}, directory: ".", inside: "/packages", env: "PYTHONPATH",
		},
		"node": {
			program: "npm", missing: "the Node that runs programs has no npm beside it", packaged: "apt install npm, dnf install npm, apk add npm",
			ask: []string{"node", "-e", askNpm}, install: []string{"node", "-e", installNode},
			spec: nodeSpec, example: `"left-pad@1.3.0" or "@types/node@^20"`,
			kind: []string{"node", "-e", nodeKind}, directory: "node_modules", inside: "/node_modules", env: "NODE_PATH",
		},
	}
})

// exitMissing is the exit status of our scripts if the package manager is missing.
const exitMissing = 97

// missingManager returns the error for a backend without a language's package manager.
func missingManager(backend, language string) error {
	m := managers()[language]
	if backend == ownBackend {
		return backends.Refuse(m.missing, "install it: "+m.packaged)
	}
	return backends.Refuse(fmt.Sprintf("the image of %s for %s lacks %s", backend, language, m.program),
		"name one that has it under ", remedy.Setting.With("images."+language), ", or make one with ",
		remedy.Command.With("sandboxmcp image build "+language))
}

// Names below the workspace of an install, and the path of the current layer.
const (
	target     = "new"         // directory of the installed files
	taskFile   = "order.json"  // a task
	reportFile = "report.json" // a report
	inOld      = "/packages-old"
)

// task is the input of an install script.
type task struct {
	Packages      []string        `json:"packages"`
	Names         []string        `json:"names"`     // of Packages
	Installed     []Package       `json:"installed"` // packages of the current layer, which is in Old; null for none
	Configuration json.RawMessage `json:"configuration"`
	Scripts       bool            `json:"scripts"`
	Dry           bool            `json:"dry"` // only resolve the packages
	Old           string          `json:"old"`
	Proxy         string          `json:"proxy"`
	Trust         string          `json:"trust"` // file of authorities
}

// report is the output of an install script.
type report struct {
	Packages []Package `json:"packages"` // packages of the whole layer
	Brought  []Package `json:"brought"`  // those that the order named, and their dependencies
	Stale    []string  `json:"stale"`    // files of the previous layer to remove
	Whole    bool      `json:"whole"`    // remove all previous files
	Lock     string    `json:"lock"`     // determines the installed files, with Brought
}

// plan returns the task of an order for a layer as JSON, and the directories of this host to mount for the package
// manager.
func (j *job) plan(base layer, dry bool) ([]byte, []backends.Mount) {
	t := task{Packages: j.order.Packages, Installed: base.Packages, Configuration: j.set.Inside, Scripts: j.store.cfg.Scripts, Dry: dry,
		Proxy: "http://127.0.0.1:" + strconv.Itoa(proxyPort), Trust: backends.TrustFile}
	for _, spec := range j.order.Packages {
		t.Names = append(t.Names, specName(j.order.Language, spec))
	}
	mounts := j.set.Mounts
	if base.dir != "" {
		t.Old = inOld
		mounts = append(mounts[:len(mounts):len(mounts)], backends.Mount{Host: base.content(), Inside: inOld})
	}
	b, _ := json.Marshal(t)
	return b, mounts
}
