package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Agent is an agent of the operator for sandboxmcp agent, or takes the place of a built-in one.
type Agent struct {
	Command []string `key:"command"` // program and its first arguments
	Allow   []string `key:"allow"`   // hosts that it reaches without a question
	Home    []string `key:"home"`    // files below the home directory that a new home of the agent may have
	Secrets []string `key:"secrets"` // of the vault, each bound to hosts
	Env     []string `key:"env"`     // KEY=VALUE
}

// readAgents reads the operator's own agents.
func (d *document) readAgents(n *yaml.Node) {
	d.eachPair("agents.", n, func(full string, k, v *yaml.Node) {
		if !profileName().MatchString(k.Value) || slices.Contains([]string{"list", "show", "login", "reset", "help"}, k.Value) {
			d.fail(d.position(k), "agents", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _, and no subcommand of sandboxmcp agent",
				k.Value)
			return
		}
		var a Agent
		before := len(d.errs)
		d.applyFields(full, v, a.settings(full), "an agent has allow, command, env, home, secrets")
		if len(d.errs) > before {
			return
		}
		if why := a.problem(); why != "" {
			d.fail(d.position(k), full, "%s", why)
			return
		}
		if d.c.Agents == nil {
			d.c.Agents = map[string]Agent{}
		}
		d.c.Agents[k.Value] = a
	})
}

// problem returns the error in an agent, or "".
func (a Agent) problem() string {
	for _, name := range a.Home {
		if !filepath.IsLocal(name) || name == "." {
			return "home has names of files below your home directory, such as .config/mine/settings.json"
		}
	}
	for _, kv := range a.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return "env has variables such as NAME=VALUE"
		}
	}
	if len(a.Command) == 0 || a.Command[0] == "" {
		return "command is missing: a list such as [mine, --no-update]"
	}
	return ""
}

// settings returns the settings of an agent; their keys begin with key.
func (a *Agent) settings(key string) []setting {
	return fieldsOf(nil, key+".", reflect.ValueOf(a).Elem(), false)
}
