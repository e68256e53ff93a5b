// Package config holds the operator's settings and says where each one came from.
//
// A setting comes from the strongest of its sources: flags, environment, configuration file,
// default. Nothing that was written and not understood is passed over: an unknown key, a value of
// the wrong kind or out of range is an error that names the place.
package config

import (
	"maps"
	"slices"
)

// Config are the operator's settings. Get one from [Load]; the zero value is not valid.
type Config struct {
	Backend       string   // "process", "podman", "docker" or "kubernetes"
	MaxConcurrent int      // runs at the same time; default: the cores of the machine
	MaxQueue      int      // runs that may wait to start; the next one is refused as busy
	Network       string   // decision on a name that is not allowed: "deny", or "ask" a person
	Vault         []string // stores that lease secrets, in the order of lookup: "environment", "sealed", "keyring", "memory"
	StateDir      string   // absolute
	SQLitePath    string   // absolute; the state database
	File          string   // absolute; the file that was read, "" where there was none
	Profile       string   // a key of Profiles
	Structured    bool     // a server gives every client structuredContent
	Skills        string   // absolute; a directory of skills that a server gives its clients, "" is none

	Audit     Audit
	Redact    Redact
	Events    Events
	Egress    Egress
	Limits    Limits // for runs that name none
	Caps      Limits // maxima that a run may ask for
	Artifacts Artifacts
	Sessions  Sessions
	Packages  Packages
	Approvals Approvals
	Validate  Validate
	Web       Web
	Keep      Keep
	Pool      Pool
	Host      Host
	HTTP      HTTP

	Images     Images
	Containers Containers
	Kubernetes Kubernetes

	// Profiles are the layers that a sandbox must have, by the name that --profile takes. They
	// include the built-in ones.
	Profiles map[string]Profile

	Git Git // whom git says to have made commits in sandboxes

	Data map[string]string // directories that runs and sessions may ask for, by name; absolute

	Runtimes map[string]Runtime // the operator's own languages, by the name that --language takes

	origins map[string]string // sources of the values that are not defaults, by key: see Setting.From
}

// Audit configures the content and the retention of the audit log, which can't be switched off.
type Audit struct {
	Capture        []string // parts of a run that rows hold besides hashes, redacted: "code", "output"
	CheckpointRows int      // rows after which the log's state is signed; it is signed, too, when no more rows come
	SealAfterDays  int      // days after which rows are moved into a sealed segment beside the log; 0 is never
	Push           []string // destinations of checkpoints, as audit/witness reads them
}

// Redact is the treatment of secrets in text that are not in the vault.
type Redact struct {
	Unknown string // text that looks like a token: "warn" reports it, "mask" removes it, "off" does neither
}

// Events are the receivers of events outside of this machine.
type Events struct {
	Webhook       string   // URL that events are posted to, "" is none
	WebhookSecret string   // NAMESPACE/KEY of the secret that posts are signed with, "" signs none
	WebhookKinds  []string // of events that are posted; nil is all
	OTLP          string   // URL of an OpenTelemetry collector, which takes OTLP over HTTP; "" is none
}

// Egress configures the hosts that runs may reach. Load does not check the patterns.
type Egress struct {
	Allow       []string // names that runs may reach without asking for them, and that callers may name
	Deny        []string // names that nobody may reach, even if they are allowed
	Networks    []string // private networks and addresses that names may lead to
	Local       []int    // ports of this machine's loopback that runs and the web tools may reach, as localhost
	Resolver    string   // ADDRESS or ADDRESS:PORT of the DNS server that is asked, or System
	IdleSeconds int      // seconds without traffic after which a connection is ended
	Connections int      // of one sandbox at once
}

// Artifacts bounds the files of a run that are kept.
type Artifacts struct {
	MaxCount int
	MaxMB    int64 // MB, of all files together
	Withhold bool  // files in which a secret was found are named and hashed, and not handed out
}

// Sessions bounds the sessions, whose interpreters outlast a run.
type Sessions struct {
	PerNamespace    int
	PerIdentity     int // that one identity has made over HTTP
	Total           int
	PausedMB        int64 // MB of the files of all paused sessions
	IdleSeconds     int   // seconds after which an unused session ends, unless it was opened with another time
	LifetimeSeconds int   // seconds after which any session ends
}

// Packages configures how packages are installed.
type Packages struct {
	Scripts bool  // packages may run code while they are installed: install scripts, source builds
	MaxMB   int64 // MB, of the packages of one namespace and language
	CacheMB int64 // MB that are kept of what was fetched and unpacked; 0 is none
	Ask     bool  // a person approves each package
}

// Validate is the treatment of code that looks dangerous.
type Validate struct {
	Reject   string   // findings from this severity on are refused: "low", "medium", "high"; "never"
	RulesOff []string // names of rules that are switched off
}

// Git names the author of commits in sandboxes, "" nobody.
type Git struct{ Name, Email string }

// Keep bounds the outputs and artifacts that are kept for clients that ask for them later.
type Keep struct {
	MaxMB int64 // MB, of all runs together
	Hours int   // hours after which they are removed
}

// Pool bounds the sandboxes that a server keeps idle for later programs. It does not change their containment.
type Pool struct {
	Enabled     bool
	Max         int   // idle sandboxes; default: twice MaxConcurrent, from minIdle to maxIdle
	MemoryMB    int64 // MB, of all idle sandboxes together
	IdleSeconds int   // seconds after which idle sandboxes of a kind end if no run has asked for that kind
}

// minIdle and maxIdle bound the default of Pool.Max. A program finds no idle sandbox where other kinds take all the room; the
// language, the script's name and the limits make a kind. More than maxIdle do not help in a burst, since refilling takes the same cores.
const minIdle, maxIdle = 8, 64

// defaults returns the settings of a machine with this many cores on which nothing is configured,
// but for the paths.
func defaults(cores int) Config {
	return Config{
		Backend:       "process",
		MaxConcurrent: cores,
		MaxQueue:      256,
		Network:       "deny",
		Vault:         []string{"environment", "sealed"},
		Profile:       Hardened,
		Audit:         Audit{CheckpointRows: 1000},
		Redact:        Redact{Unknown: "warn"},
		Limits: Limits{
			RAMMB: 512, TimeoutSeconds: 60, CPUCores: 1, Processes: 256, OutputBytes: 1 << 20, DiskMB: 512,
		},
		Caps: Limits{
			RAMMB:          8192,
			TimeoutSeconds: 3600,
			CPUCores:       float64(cores),
			Processes:      4096,
			OutputBytes:    64 << 20, // a run's output is in our memory as a whole
			DiskMB:         8192,     // a tmpfs: this is RAM, too
		},
		Egress:    Egress{Resolver: System, IdleSeconds: 600, Connections: 4096},
		Artifacts: Artifacts{MaxCount: 1000, MaxMB: 512, Withhold: true},
		Sessions:  Sessions{PerNamespace: 64, PerIdentity: 256, Total: 1024, PausedMB: 4096, IdleSeconds: 30 * 60, LifetimeSeconds: 24 * 60 * 60},
		Packages:  Packages{MaxMB: 2048, CacheMB: 2048},
		Approvals: Approvals{TimeoutSeconds: 600, Confirm: "user", Notify: true},
		Validate:  Validate{Reject: "never"},
		Web:       Web{TimeoutSeconds: 60, MaxMB: 10},
		Keep:      Keep{MaxMB: 1024, Hours: 24},
		Pool:      Pool{Enabled: true, MemoryMB: 128, IdleSeconds: 300},
		Host:      Host{TimeoutSeconds: 60, OutputBytes: 1 << 20, RAMMB: 2048, Processes: 256, MaxFileMB: 16},
		HTTP:      HTTP{Page: true, DrainSeconds: 10, Requests: 1000, OAuth: OAuth{Namespaces: "namespaces"}},
		Images: Images{
			Python: "docker.io/library/python:3.12-slim",
			Node:   "docker.io/library/node:22-slim",
			Shell:  "docker.io/library/debian:stable-slim",
			R:      "docker.io/rocker/r-ver:4",
		},
		Containers: Containers{Pull: "missing", Ahead: 2},
		Kubernetes: Kubernetes{Overcommit: 1, PolicySeconds: 3, AgentSandbox: "auto"},
		Profiles:   builtin(),
		origins:    map[string]string{},
	}
}

// Setting is one effective value, for people to read.
type Setting struct {
	Key   string `json:"key"`   // as in the file, with dots: "limits.ram_mb"
	Value string `json:"value"` // as it would be written in the file
	From  string `json:"from"`  // "default", "FILE:LINE", "environment NAME" or "flag"
}

// Origins returns every setting with the place it came from: first those that every
// configuration has, then certificates, templates, runtimes, data and profiles by name.
func (c Config) Origins() []Setting {
	var all []Setting
	add := func(list []setting) {
		for _, s := range list {
			all = append(all, Setting{s.key, s.show(), c.From(s.key)})
		}
	}
	add(settings(&c))
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
			all = append(all, Setting{key + ".driver", quoted(one.Driver), c.From(key + ".driver")})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Data)) {
		all = append(all, Setting{"data." + name, quoted(c.Data[name]), c.From("data." + name)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p, key := c.Profiles[name], "profiles."+name
		all = append(all,
			Setting{key + ".require", flow(p.Require), c.From(key + ".require")},
			Setting{key + ".layers", p.Layers, c.From(key + ".layers")})
	}
	return all
}

// Default is the Setting.From of a setting that no source sets.
const Default = "default"

// From describes where the value of a setting came from, as Setting has it.
func (c Config) From(key string) string {
	if from, set := c.origins[key]; set {
		return from
	}
	return Default
}
