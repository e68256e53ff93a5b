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

// missing implements tool.
func (pip) missing() error {
	return backends.Refuse("the Python that runs programs has no pip, and no wheel of pip to run it from",
		"install it: apt install python3-pip, dnf install python3-pip, or python3 -m ensurepip")
}

// missingIn implements tool.
func (pip) missingIn(backend string) error { return notInImage(backend, "python", "pip") }

// settings implements tool.
func (p pip) settings(ctx context.Context, h host) (settings, error) {
	python := beside(h.runtime, "python3", "python")
	if python == "" {
		return settings{}, h.lacks("pip", p.missing())
	}
	c, err := h.ask(ctx, "pip", python, "-c", pipScript+askScript)
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == exitMissing {
		return settings{}, h.lacks("pip", p.missing())
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
	place := func(what, raw string) (string, error) {
		if dir := localDir(raw); dir != "" {
			m := backends.Mount{Host: dir, Inside: fmt.Sprintf("%s/%d", inLocal, len(set.mounts))}
			set.mounts = append(set.mounts, m)
			return "file://" + m.Inside, nil
		}
		u, err := set.take(what, raw)
		if err != nil {
			return "", err
		}
		if u.Scheme == "http" {
			trusted = append(trusted, u.Host)
		}
		return u.String(), nil
	}
	list := func(what string, all []string) (string, error) {
		var in []string
		for _, raw := range all {
			if strings.HasPrefix(raw, "/") || strings.HasPrefix(raw, "~") || strings.HasPrefix(raw, "file:") {
				if localDir(raw) == "" {
					continue // pip passes over what is not there, too
				}
			}
			one, err := place(what, raw)
			if err != nil {
				return "", err
			}
			in = append(in, one)
		}
		return strings.Join(in, " "), nil
	}
	for _, o := range []struct{ what, env string }{{"find-links", "PIP_FIND_LINKS"}, {"index-url", "PIP_INDEX_URL"}, {"extra-index-url", "PIP_EXTRA_INDEX_URL"}} {
		if c.yes("no-index") && o.what != "find-links" {
			continue
		}
		in, err := list("pip's "+o.what, c.all(o.what))
		if err != nil {
			return err
		}
		if in != "" {
			set.env = append(set.env, o.env+"="+in)
		}
	}
	if c.yes("no-index") {
		set.env = append(set.env, "PIP_NO_INDEX=1")
	}
	set.env = append(set.env, "PIP_TRUSTED_HOST="+strings.Join(trusted, " "))
	for _, name := range passedOptions {
		if v := c.Options[name]; v != "" {
			set.env = append(set.env, "PIP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+v)
		}
	}
	if text := c.Options["constraint"]; text != "" {
		set.files = map[string]string{operatorConstraints: text + "\n"}
	}
	return nil
}

// passedOptions are the options that pip gets inside: for the choice of versions, and timeouts and retries.
var passedOptions = []string{"pre", "prefer-binary", "uploaded-prior-to", "default-timeout", "timeout", "retries"}

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
