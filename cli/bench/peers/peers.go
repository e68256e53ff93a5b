// Package peers knows what else isolates programs: bubblewrap, gVisor, and the engines of containers.
package peers

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/sandboxmcp/sandboxmcp/cli/bench"
)

// Config is what the others need of the caller.
type Config struct {
	Environ []string                     // for programs that need a home or an engine's address
	Image   func(language string) string // of containers; one that an engine does not have is left out, never fetched
}

// found is what there is of them.
type found struct {
	Config
	bench.Peers
	programs []*bench.Program
	engines  []*engine
}

// Find returns those that are installed.
func (c Config) Find(ctx context.Context, programs []*bench.Program) bench.Peers {
	f := &found{Config: c, programs: programs, Peers: bench.Peers{Versions: map[string]string{}}}
	f.Close = f.close
	f.bubblewrap(ctx)
	f.gvisor(ctx)
	for _, name := range []string{"docker", "podman"} {
		f.containers(ctx, name)
	}
	return f.Peers
}

// installed returns where the program of a tool is, if it is there.
func (f *found) installed(name, program string) string {
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		f.leaveOut(name, errors.New("not installed"))
		return ""
	}
	return path
}

func (f *found) leaveOut(what string, why error) {
	f.LeftOut = append(f.LeftOut, bench.LeftOut{What: what, Why: bench.OneLine(why.Error())})
}

var version = regexp.MustCompile(`\d[\w.-]*`)

// version notes the version that a tool names.
func (f *found) version(ctx context.Context, name, path string) {
	if text, err := bench.Output(ctx, bench.Clean(), path, "--version"); err == nil {
		f.Versions[name] = version.FindString(text)
	}
}
