// Package config holds the operator's settings and the source of each.
//
// A setting comes from the strongest of its sources: flags, environment, configuration file, default. Load ignores
// nothing: an unknown key, a value of the wrong type or out of range is an error that names its place.
//
// A setting is a field here, and its tag has the default, the range and the description; http and containers have the
// fields of their sections. load has the defaults that depend on the machine, file reads YAML, settings reads tags.
package config

import (
	"maps"
	"slices"
)

// Config holds the operator's settings. [Load] returns one; the zero value is not valid.
//
// A field with a key is a setting, or a section of them. Its tag has the environment variable, the values that it takes
// (range, oneof, or is, the name of a kind), its default and its description. Paths are absolute; "" means none, or
// detected.
type Config struct {
	Backend       string   `key:"backend" env:"BACKEND" is:"backend" default:"process" about:"isolation backend: a hardened process, containers of an engine, or pods of a cluster"`
	MaxConcurrent int      `key:"max_concurrent" env:"MAX_CONCURRENT" range:"1..10000" about:"concurrent runs; up to three times as many, and at least four more, while long runs keep others waiting for their share"`
	MaxQueue      int      `key:"max_queue" range:"0..1000000" default:"256" about:"maximum queued runs; further ones are refused as busy"`
	Network       string   `key:"network" env:"NETWORK" oneof:"deny ask" default:"deny" about:"treatment of a name that is not allowed: deny it, or ask a person"`
	Vault         []string `key:"vault" env:"VAULT" is:"stores" default:"environment,sealed" about:"secret stores, in search order"`
	StateDir      string   `key:"state_dir" is:"path" about:"directory of the log, the keys, the vault and stored results"`
	SQLitePath    string   `key:"sqlite_path" env:"SQLITE_PATH" is:"path" about:"database of the log"`
	File          string   // absolute path of the file that was read, "" if none was
	Profile       string   `key:"profile" env:"PROFILE" is:"profile" default:"hardened" about:"default profile of runs"`
	GitAuthor     string   `key:"git_author" is:"author" about:"author of commits that git makes in sandboxes, as NAME <EMAIL>"`
	Skills        string   `key:"skills" is:"path or none" about:"directory of skills, each a directory with a SKILL.md, which a server offers clients as resources and prompts"`

	Limits Limits `key:"limits"` // defaults of runs
	Caps   Limits `key:"caps"`   // maximum values that a run may request

	Sections

	// Profiles are the layers that a sandbox must have, by the name that --profile takes, including the built-in ones.
	Profiles map[string]Profile

	Data map[string]string // directories that runs and sessions may request, by name; absolute

	Workspaces map[string]Workspace // directories that runs and sessions may work in, by name

	Runtimes map[string]Runtime // the operator's own languages, by the name that --language takes

	Agents map[string]Agent // the operator's own agents, by the name that sandboxmcp agent takes

	origins map[string]string // sources of non-default values, by key: see Setting.From
}

// Sections are the settings by part of the product, in display order.
type Sections struct {
	Audit      Audit      `key:"audit"`
	Redact     Redact     `key:"redact"`
	Events     Events     `key:"events"`
	Approvals  Approvals  `key:"approvals"`
	Egress     Egress     `key:"egress"`
	Artifacts  Artifacts  `key:"artifacts"`
	Sessions   Sessions   `key:"sessions"`
	Packages   Packages   `key:"packages"`
	Validate   Validate   `key:"validate"`
	Keep       Keep       `key:"keep"`
	Pool       bool       `key:"pool" env:"POOL" default:"true" about:"a server keeps warm sandboxes and containers for later programs"`
	Web        Web        `key:"web"`
	Host       Host       `key:"host"`
	HTTP       HTTP       `key:"http"`
	Images     Images     `key:"images"`
	Containers Containers `key:"containers"`
	Kubernetes Kubernetes `key:"kubernetes"`
}

// Audit configures the content and the retention of the audit log, which is always on.
type Audit struct {
	Enabled    alwaysTrue `key:"enabled" env:"AUDIT" about:"the log is always on: a run without a row has no result"`
	Capture    []string   `key:"capture" oneof:"code output" about:"content of rows in addition to hashes, redacted, 64 KiB of each"`
	RotateDays int        `key:"rotate_days" range:"0..36500" about:"days after which servers start a new log file; 0 is never"`
	KeepDays   int        `key:"keep_days" range:"0..36500" about:"days after which servers delete closed files of the log; 0 is never"`
	Push       []string   `key:"push" about:"places for pushed checkpoints: a file, git:REMOTE#BRANCH, https://HOST/PREFIX#KEY"`
}

// Redact configures the redaction of secrets that are not in the vault.
type Redact struct {
	Unknown string `key:"unknown" oneof:"off warn mask" default:"warn" about:"treatment of text that looks like a token and is in no vault: nothing, a warning, or a mask"`
}

// Events are the external receivers of events.
type Events struct {
	Webhook       string   `key:"webhook" url:"https://collector.example.com:4318" about:"URL that events are posted to"`
	WebhookSecret string   `key:"webhook_secret" is:"secret" about:"secret of the vault that signs these posts"`
	WebhookKinds  []string `key:"webhook_kinds" default:"*" about:"kinds of events to post; * is all"`
}

// Egress configures the hosts that runs may reach. Load does not validate the patterns.
type Egress struct {
	Allow    []string `key:"allow" about:"names that all runs may reach, and that callers may request"`
	Deny     []string `key:"deny" about:"names that nobody may reach"`
	Networks []string `key:"networks" about:"private networks and addresses that names may resolve to"`
	Local    []int    `key:"local" about:"ports of this machine's loopback that runs and the web tools may reach as localhost"`
	Resolver string   `key:"resolver" is:"resolver" default:"system" about:"DNS server for allowed names"`
}

// Artifacts configures which files of a run are stored and returned.
type Artifacts struct {
	MaxCount int  `key:"max_count" range:"1..1000000" default:"1000" about:"maximum number of stored files of a run"`
	Withhold bool `key:"withhold" default:"true" about:"files that contain a leased secret are listed with their hash, but withheld"`
}

// Sessions bounds the sessions, whose interpreters outlast a run.
type Sessions struct {
	PerNamespace    int `key:"per_namespace" range:"1..100000" default:"64" about:"concurrent sessions of a namespace"`
	Total           int `key:"total" range:"1..100000" default:"1024" about:"concurrent sessions"`
	IdleSeconds     int `key:"idle_seconds" range:"1..2592000" default:"1800" about:"seconds after which an unused session ends"`
	LifetimeSeconds int `key:"lifetime_seconds" range:"1..2592000" default:"86400" about:"seconds after which any session ends"`
}

// Packages configures how packages are installed.
type Packages struct {
	Scripts bool  `key:"scripts" about:"packages may run install scripts and be built from source"`
	MaxMB   int64 `key:"max_mb" range:"1..1048576" default:"2048" about:"MB of the packages of one namespace and language"`
	Ask     bool  `key:"ask" about:"a person approves each package that is installed"`
}

// Validate configures the policy for code that looks dangerous.
type Validate struct {
	Reject   string   `key:"reject_dangerous" oneof:"never low medium high" default:"never" about:"severity from which dangerous patterns in code are refused"`
	RulesOff []string `key:"rules_off" about:"disabled rules"`
}

// Keep bounds the stored outputs and artifacts, for clients that ask for them later.
type Keep struct {
	MaxMB int64 `key:"max_mb" range:"1..16777216" default:"1024" about:"MB of outputs and artifacts that are stored for get_artifacts; the files of one run are at most half of it"`
	Hours int   `key:"hours" range:"1..8760" default:"24" about:"hours after which they are removed"`
}

// Setting is an effective value in the form that people read.
type Setting struct {
	Key   string `json:"key"`   // as in the file, with dots: "limits.ram_mb"
	Value string `json:"value"` // in the syntax of the file
	From  string `json:"from"`  // "default", "FILE:LINE", "environment NAME" or "flag"
}

// Origins returns each setting with its source: first those that every configuration has, then certificates, templates,
// runtimes, agents, data, workspaces and profiles by name.
func (c Config) Origins() []Setting {
	var all []Setting
	add := func(list []setting) {
		for _, s := range list {
			all = append(all, Setting{s.key, s.show(), c.From(s.key)})
		}
	}
	add(settings(&c, false))
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Certificates)) {
		one := c.HTTP.Certificates[name]
		add(one.settings("http.certificates." + name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Templates)) {
		one := c.HTTP.Templates[name]
		add(one.settings("http.templates." + name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Runtimes)) {
		one, key := c.Runtimes[name], "runtimes."+name
		add(one.settings(key))
		if one.Driver != "" {
			all = append(all, Setting{key + ".driver", yamlWord(one.Driver), c.From(key + ".driver")})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		one := c.Agents[name]
		add(one.settings("agents." + name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Data)) {
		all = append(all, Setting{"data." + name, yamlWord(c.Data[name]), c.From("data." + name)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Workspaces)) {
		one := c.Workspaces[name]
		add(one.settings("workspaces." + name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p, key := c.Profiles[name], "profiles."+name
		all = append(all,
			Setting{key + ".require", yamlList(p.Require), c.From(key + ".require")},
			Setting{key + ".layers", p.Layers, c.From(key + ".layers")})
	}
	return all
}

// Default is the Setting.From of a setting that no source sets.
const Default = "default"

// From returns the source of a setting's value, in the form of Setting.From.
func (c Config) From(key string) string {
	if from, set := c.origins[key]; set {
		return from
	}
	return Default
}
