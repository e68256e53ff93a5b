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
	Backend       string   // "process", "podman" or "docker"
	MaxConcurrent int      // runs at the same time; default: the cores of the machine
	MaxQueue      int      // runs that may wait for their turn; the next one is told "busy"
	Network       string   // what becomes of a name that is not allowed: "deny", or "ask" a person
	Vault         []string // stores that lend secrets, the first one first: "environment", "sealed", "keyring", "memory"
	StateDir      string   // absolute
	SQLitePath    string   // absolute; the state database
	File          string   // absolute; the file that was read, "" where there was none
	Profile       string   // a key of Profiles
	Structured    bool     // a server gives every client structuredContent

	Audit     Audit
	Redact    Redact
	Events    Events
	Egress    Egress
	Limits    Limits // for runs that name none
	Caps      Limits // no run gets more
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

	// Profiles says what a sandbox must consist of, by the name that --profile uses. The built-in
	// ones are always there.
	Profiles map[string]Profile

	origins map[string]string // key -> where its value came from, unless from nowhere
}

// Audit configures what the log holds, and for how long. That it is kept is no setting.
type Audit struct {
	Capture        []string // what rows hold of a run beside hashes, free of secrets: "code", "output"
	CheckpointRows int      // after which the log's state is signed; it is, too, when nothing more comes
	SealAfterDays  int      // after which rows are moved into a sealed segment beside the log; 0 is never
	Push           []string // places that checkpoints are taken to, as audit/witness reads them
}

// Redact is the treatment of secrets in text that are not in the vault.
type Redact struct {
	Unknown string // what looks like a token is told of ("warn"), taken out ("mask"), or neither ("off")
}

// Events are the receivers of events outside of this machine.
type Events struct {
	Webhook       string   // URL that events are posted to, "" is none
	WebhookSecret string   // NAMESPACE/KEY of the secret that posts are signed with, "" signs none
	WebhookKinds  []string // of events that are posted; nil is all
	OTLP          string   // URL of an OpenTelemetry collector, which takes OTLP over HTTP; "" is none
}

// Egress configures what runs may reach. Patterns are checked by whoever uses them.
type Egress struct {
	Allow       []string // what runs may reach that name nothing, and callers may name
	Deny        []string // what nobody may reach, whoever allows it
	Networks    []string // private networks and addresses that names may lead to
	Local       []int    // ports of this machine's loopback that runs and the web tools may reach, as localhost
	Resolver    string   // ADDRESS or ADDRESS:PORT of the DNS server that is asked, or System
	IdleSeconds int      // after which a connection on which nothing moves is ended
	Connections int      // of one sandbox at once
}

// Artifacts bounds what is kept of the files that a run leaves behind.
type Artifacts struct {
	MaxCount int
	MaxMB    int64 // MB, of all files together
	Withhold bool  // files in which a secret was found are named and hashed, and not handed out
}

// Sessions bounds the interpreters that stay.
type Sessions struct {
	PerNamespace    int
	Total           int
	IdleSeconds     int // after which an unused one ends that asked for nothing else
	LifetimeSeconds int // after which any ends
}

// Packages configures how packages are installed.
type Packages struct {
	Scripts bool  // they may run code of theirs meanwhile: install scripts, source builds
	MaxMB   int64 // MB, of what one namespace has for one language
	Ask     bool  // a person approves what is installed
}

// Validate is the treatment of code that looks dangerous.
type Validate struct {
	Reject   string   // findings from this severity on are refused: "low", "medium", "high"; "never"
	RulesOff []string // rules that find nothing
}

// Keep bounds what is kept of runs, so that clients can ask for it afterwards.
type Keep struct {
	MaxMB int64
	Hours int
}

// Pool bounds what a server keeps ready for programs that may come. It has no say in how they are contained.
type Pool struct {
	Enabled     bool
	Max         int   // sandboxes that wait at once; default: twice MaxConcurrent, from minIdle to maxIdle
	MemoryMB    int64 // MB, of all that wait together
	IdleSeconds int   // after which those of a kind end that nobody has asked for
}

// These bound the default. A program finds none ready where others of other kinds take all the room, and a language, its script's
// name and its limits are a kind. More than the most are of no use to a burst, since refilling takes the same cores.
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
		Sessions:  Sessions{PerNamespace: 64, Total: 1024, IdleSeconds: 30 * 60, LifetimeSeconds: 24 * 60 * 60},
		Packages:  Packages{MaxMB: 2048},
		Approvals: Approvals{TimeoutSeconds: 600, Confirm: "user", Notify: true},
		Validate:  Validate{Reject: "never"},
		Web:       Web{TimeoutSeconds: 60, MaxMB: 10},
		Keep:      Keep{MaxMB: 1024, Hours: 24},
		Pool:      Pool{Enabled: true, MemoryMB: 128, IdleSeconds: 300},
		Host:      Host{TimeoutSeconds: 60, OutputBytes: 1 << 20, RAMMB: 2048, Processes: 256, MaxFileMB: 16},
		HTTP:      HTTP{DrainSeconds: 10, Requests: 1000, OAuth: OAuth{Namespaces: "namespaces"}},
		Images: Images{
			Python: "docker.io/library/python:3.12-slim",
			Node:   "docker.io/library/node:22-slim",
			Shell:  "docker.io/library/debian:stable-slim",
			R:      "docker.io/rocker/r-ver:4",
		},
		Containers: Containers{Pull: "missing", Ahead: 2},
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
// configuration has, then certificates and profiles by name.
func (c Config) Origins() []Setting {
	var all []Setting
	for _, s := range settings() {
		all = append(all, Setting{s.key, s.show(&c), c.From(s.key)})
	}
	all = append(all, c.certificateOrigins()...)
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p, key := c.Profiles[name], "profiles."+name
		all = append(all,
			Setting{key + ".require", flow(p.Require), c.From(key + ".require")},
			Setting{key + ".layers", p.Layers, c.From(key + ".layers")})
	}
	return all
}

// Default is where settings come from that nobody has set.
const Default = "default"

// From describes where the value of a setting came from, as Setting has it.
func (c Config) From(key string) string {
	if from, set := c.origins[key]; set {
		return from
	}
	return Default
}
