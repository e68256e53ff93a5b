package packages

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/backends"
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
	// missing returns the error for a host without the package manager, missingIn that for a backend
	// whose image of the language lacks it.
	missing() error
	missingIn(backend string) error
}

// tools are the package managers, by language.
var tools = map[string]tool{"python": pip{}, "node": npm{}}

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
