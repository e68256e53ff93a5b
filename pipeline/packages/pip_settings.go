package packages

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Definitions, and the code that makes a program of them.
var (
	//go:embed runpip.py
	pipScript string
	//go:embed ask.py
	askScript string
)

// pip installs for Python.
type pip struct{}

// settings implements tool.
func (pip) settings(ctx context.Context, h host) (settings, error) {
	python := beside(h.runtime, "python3", "python")
	if python == "" {
		return settings{}, h.lacks("python")
	}
	c, err := h.ask(ctx, "pip", python, "-c", pipScript+askScript)
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == exitMissing {
		return settings{}, h.lacks("python")
	}
	if err != nil {
		return settings{}, err
	}
	if c.Options["index-url"] = cmp.Or(c.Options["index-url"], c.Options["default-index-url"]); c.Options["index-url"] == "" && !c.yes("no-index") {
		return settings{}, backends.Refuse("pip does not say which index it uses", remedy.Command.With("pip config set global.index-url URL"))
	}
	var set settings
	if err = pipSources(c, &set); err == nil {
		err = set.transport(c)
	}
	trusted := c.all("trusted-host")
	set.untrusted = func(host string) bool { return slices.Contains(trusted, host) }
	if err != nil {
		return settings{}, fmt.Errorf("read pip's configuration: %w", err)
	}
	for _, src := range set.sources {
		for _, l := range c.Logins {
			if strings.EqualFold(l.Host, src.base.Hostname()) && set.authorize(src.base) == "" {
				set.login("//"+address(src.base)+"/", l)
			}
		}
	}
	return set, nil
}

// pipSources sets the places that packages come from, and pip's options inside. A directory of the host is mounted inside.
func pipSources(c configuration, set *settings) error {
	var trusted []string
	for _, option := range []string{"find-links", "index-url", "extra-index-url"} {
		var in []string
		for _, raw := range c.all(option) {
			dir := localDir(raw)
			local := strings.HasPrefix(raw, "/") || strings.HasPrefix(raw, "~") || strings.HasPrefix(raw, "file:")
			switch {
			case c.yes("no-index") && option != "find-links", local && dir == "": // pip passes over what is not there, too
			case dir != "":
				m := backends.Mount{Host: dir, Inside: fmt.Sprintf("%s/%d", inLocal, len(set.mounts))}
				set.mounts = append(set.mounts, m)
				in = append(in, "file://"+m.Inside)
			default:
				u, err := set.take("pip's "+option, raw)
				if err != nil {
					return err
				}
				if u.Scheme == "http" {
					trusted = append(trusted, u.Host)
				}
				in = append(in, u.String())
			}
		}
		set.option(option, strings.Join(in, " "))
	}
	set.option("trusted-host", strings.Join(trusted, " "))
	for _, name := range passedOptions {
		set.option(name, c.Options[name])
	}
	if text := c.Options["constraint"]; text != "" {
		set.files = map[string]string{operatorConstraints: text + "\n"}
	}
	return nil
}

// option gives pip an option inside, unless its value is empty.
func (s *settings) option(name, value string) {
	if value != "" {
		s.env = append(s.env, "PIP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
}

// passedOptions are the options that pip gets inside: for the choice of versions, and timeouts and retries.
var passedOptions = []string{"no-index", "pre", "prefer-binary", "uploaded-prior-to", "default-timeout", "timeout", "retries"}

// operatorConstraints is the name of the file of the operator's constraints, below the workspace.
const operatorConstraints = "constraints-of-the-operator.txt"

// localDir returns the directory that a source names, as a path or a file URL, "" if it is none or does not exist.
func localDir(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Scheme == "file" {
		raw = u.Path
	}
	if rest, ok := strings.CutPrefix(raw, "~/"); ok {
		home, _ := os.UserHomeDir()
		raw = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(raw) {
		return ""
	}
	info, err := os.Stat(raw)
	if err != nil || !info.IsDir() {
		return ""
	}
	return filepath.Clean(raw)
}
