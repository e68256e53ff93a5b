package config

import (
	"cmp"
	"strings"
)

// Entry documents one setting.
type Entry struct {
	Key     string // as in the file, with dots
	Env     string // the environment variable, "" where there is none
	Takes   string // the valid values
	Default string // on a machine where nothing is configured
	About   string // one sentence without a full stop
}

// Reference documents all settings, in the order of Origins, and the keys of a profile.
func Reference() []Entry {
	machine := map[string]string{ // defaults that depend on the machine
		"max_concurrent": "the cores of the machine, at least 4",
		"caps.cpu_cores": "the cores of the machine",
		"state_dir":      "~/.local/state/sandboxmcp",
		"sqlite_path":    "sandboxmcp.db in state_dir",
	}
	var all []Entry
	for _, s := range newLoader(1, nil).settings {
		e := Entry{Key: s.key, Takes: s.takes, Default: cmp.Or(machine[s.key], strings.Trim(s.show(), `"`)), About: s.about}
		if s.env != "" {
			e.Env = "SANDBOXMCP_" + s.env
		}
		all = append(all, e)
	}
	return append(all,
		Entry{"http.certificates.NAME.kind", "", "agent, person", None, "what a client is whose certificate has NAME: uri:URI, dns:NAME or, " +
			"without these, cn:NAME"},
		Entry{"http.certificates.NAME.namespaces", "", "a list", "needed",
			"namespaces that it may use; it needs one, and a person's may be [\"*\"], which is all"},
		Entry{"http.templates.NAME.backend", "", strings.Join(backendNames(), ", "), "backend",
			"what contains sandboxes of E2B's template NAME, which SDKs ask for by this name"},
		Entry{"http.templates.NAME.profile", "", "text", "profile", "profile of sandboxes of this template"},
		Entry{"http.templates.NAME.workspace", "", "text", None, "workspace that is /workspace of sandboxes of this template"},
		Entry{"runtimes.NAME.extensions", "", "a list of extensions, such as .pl", "needed",
			"files of language NAME, which run, validate_code and the like take then as a language"},
		Entry{"runtimes.NAME.command", "", "a list of words", "needed", "program that runs the code, whose file is {file} or else the last " +
			"word; with compile, {program}"},
		Entry{"runtimes.NAME.compile", "", "a list of words", "[]", "program that makes {program} of {file} in the same sandbox first"},
		Entry{"runtimes.NAME.check", "", "a list of words", "[]", "program that checks the syntax of the code without running it"},
		Entry{"runtimes.NAME.kernel", "", "a list of words", "[]", "program that keeps sessions of language NAME; {driver} is the file that " +
			"driver names"},
		Entry{"runtimes.NAME.driver", "", "a path", None, "file of this machine that each session's sandbox gets for its kernel"},
		Entry{"agents.NAME.command", "", "a list of words", "needed", "program of the agent NAME of sandboxmcp agent, and its first arguments"},
		Entry{"agents.NAME.allow", "", "a list", "[]", "hosts that it reaches without a question"},
		Entry{"agents.NAME.home", "", "a list of paths", "[]", "files below your home directory, without credentials, that a new home of the " +
			"agent may have"},
		Entry{"agents.NAME.secrets", "", "a list", "[]", "secrets of the vault that it uses, each bound to hosts, as placeholders in " +
			"variables of these names"},
		Entry{"agents.NAME.env", "", "a list", "[]", "its environment variables, as NAME=VALUE"},
		Entry{"data.NAME", "", "a path", None, "directory that runs and sessions which ask for NAME see, read-only, as /data/NAME"},
		Entry{"workspaces.NAME.path", "", "a path", "needed", "directory that agents work in as workspace NAME; workspaces.NAME: PATH is " +
			"short for it"},
		Entry{"workspaces.NAME.changes", "", strings.Join(workspaceChanges(), ", "), workspaceChanges()[0],
			"what becomes of their changes: a person applies them, each run that ends with exit code 0 does, or there can be none"},
		Entry{"workspaces.NAME.namespaces", "", "a list", "[]", "namespaces that may use it; [] is all"},
		Entry{"profiles.NAME.require", "", None + ", a list of " + strings.Join(Layers(), ", "), "the containment layers",
			"layers without which a run of this profile is refused"},
		Entry{"profiles.NAME.layers", "", Hardened + ", " + Landlock, Hardened, "layers that this profile sets up"})
}
