// Package role determines the role of this process: the command that people and agents start, or one of the helpers
// that it starts under another name. A helper's package takes over during package initialisation, so that it waits for
// no later package, and so that test binaries can be their own helpers. The launcher of sandboxes takes over even
// before package os and this one: see backends/process/launch.
package role

import "os"

// The helpers, by the argument that selects them.
const (
	ContainerInit = "/.sandboxmcp/init"       // argument zero of PID 1 in a container; arguments follow
	PodAttach     = "attach"                  // the only argument, with argument zero of ContainerInit: connects a pod with a server
	HostCommand   = "sandboxmcp-host-command" // argument zero: the parent of a command on the host
	Parser        = "sandboxmcp-parse"        // argument zero, and alone: parses scripts
	Guest         = "guest"                   // the only argument, behind argument zero of ContainerInit: an agent inside of a sandbox
	PageReader    = "__read-web-page"         // the only argument: parses web pages
)

// TakeOver runs serve and exits with its code if this process is that helper.
func TakeOver(helper string, serve func() int) {
	if roleOf(os.Args, os.Getpid()) == helper {
		os.Exit(serve())
	}
}

// roleOf returns the helper that arguments and process id select, or "".
func roleOf(args []string, pid int) string {
	switch {
	case len(args) == 0:
	case args[0] == HostCommand,
		args[0] == Parser && len(args) == 1,
		args[0] == ContainerInit && len(args) > 1 && (pid == 1 || len(args) == 2 && args[1] == PodAttach):
		return args[0]
	case len(args) == 2 && args[0] == ContainerInit && args[1] == Guest:
		return Guest
	case len(args) == 2 && args[1] == PageReader:
		return PageReader
	}
	return ""
}
