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

// Scripts that know pip and npm. Those that ask run on this host, the others in an install's sandbox.
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

// manager is a language's package manager. ask and install carry out its scripts, and kind prints an interpreter's part
// of its kind.
type manager struct {
	program, missing, packaged string   // its name, the reason where it is missing, and how it comes there
	ask, install, kind         []string // their commands
	spec                       func() *regexp.Regexp
	example                    string // of specs
	directory                  string // of a layer's content that sandboxes see
	inside, env                string // the place where they see it, and the variable that names that place
}

// Python looks for modules in PYTHONPATH, also in a virtual environment, where it would not look into a user's own
// directory. Two things of packages don't work this way: .pth files are not read there, and programs that packages
// bring are not on the PATH (python -m is).
//
// Both ways of Node's importing look into the node_modules of every directory above the program, up to the root. import
// knows no other way, require has NODE_PATH for programs that lie elsewhere.
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

// missingManager is the error for a backend without a language's package manager.
func missingManager(backend, language string) error {
	m := managers()[language]
	if backend == ownBackend {
		return backends.Refuse(m.missing, "install it: "+m.packaged)
	}
	return backends.Refuse(fmt.Sprintf("the image that %s has for %s comes without %s", backend, language, m.program),
		"name one that has it under ", remedy.Setting.With("images."+language), ", or make one with ", remedy.Command.With("sandboxmcp image build "+language))
}

// Names below the workspace of an install, and the place of the layer as it is.
const (
	target     = "new"         // directory of the installed files
	taskFile   = "order.json"  // a task
	reportFile = "report.json" // a report
	inOld      = "/packages-old"
)

// task is what a script that installs reads.
type task struct {
	Packages      []string        `json:"packages"`
	Names         []string        `json:"names"`     // of Packages
	Installed     []Package       `json:"installed"` // null for none; of the layer as it is, which is in Old
	Configuration json.RawMessage `json:"configuration"`
	Scripts       bool            `json:"scripts"`
	Dry           bool            `json:"dry"` // only find out what there is to install
	Old           string          `json:"old"`
	Proxy         string          `json:"proxy"`
	Trust         string          `json:"trust"` // file of authorities
}

// report is what a script that installs says of it.
type report struct {
	Packages []Package `json:"packages"` // of the whole layer
	Brought  []Package `json:"brought"`  // of those, what the order named and what came with it
	Stale    []string  `json:"stale"`    // files of the layer as it was that go
	Whole    bool      `json:"whole"`    // all files of it go: the fresh ones are the whole layer
	Lock     string    `json:"lock"`     // decides what is installed, beside Brought
}

// plan returns the task of an order for a layer, as JSON, and the directories of this host that it shows the package
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
