package packages

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// tool is a language's package manager.
type tool interface {
	// settings returns the operator's configuration, as the tool itself reports it on the host. No code of packages
	// runs.
	settings(ctx context.Context, host host) (settings, error)
	// plan returns how to install an order's packages beside those of a layer.
	// A dry plan installs nothing: it only finds out what would be installed.
	plan(o Order, base layer, set settings, scripts, dry bool) (installPlan, error)
	// read returns the packages that an install left, and of those the ones that this order brought.
	read(o Order, base layer, h harvest) (all, brought []Package, err error)
	// retained returns the files of the layer before that stay beside the fresh ones.
	retained(base layer, fresh map[string]file) (map[string]file, error)
	// directories must be there in each visible layer, even an empty one.
	directories() []string
	// show returns the view that sandboxes have of the content of a layer.
	show(content string) View
}

// tools are the package managers, by language.
var tools = map[string]tool{"python": pip{}, "node": npm{}}

// managers are the package managers' names, where one is missing, and how it comes there, by language.
var managers = map[string]struct{ program, missing, install string }{
	"python": {"pip", "the Python that runs programs has no pip, and no wheel of pip to run it from", "apt install python3-pip, dnf install python3-pip, or python3 -m ensurepip"},
	"node":   {"npm", "the Node that runs programs has no npm beside it", "apt install npm, dnf install npm, apk add npm"},
}

// missing is the error for a backend without a language's package manager.
func missing(backend, language string) error {
	m := managers[language]
	if backend == ownBackend {
		return backends.Refuse(m.missing, "install it: "+m.install)
	}
	return backends.Refuse(fmt.Sprintf("the image that %s has for %s comes without %s", backend, language, m.program),
		"name one that has it under ", remedy.Setting.With("images."+language), ", or make one with ", remedy.Command.With("sandboxmcp image build "+language))
}

// installPlan is the command of an install, with its files, mounts and environment.
type installPlan struct {
	files   map[string]string // to put into the workspace first
	mounts  []backends.Mount
	env     []string
	command []string
	hint    func(output string) string // returns a remedy for a failure, "" if none is clear
}

// exitMissing is the exit status of our scripts if the package manager is missing.
const exitMissing = 97

// Places inside.
const (
	inTarget = "/workspace/" + target
	inOld    = "/packages-old"   // the layer as it is, where the package manager wants to see it
	inLocal  = "/packages-local" // directories of packages that the operator configured
)
