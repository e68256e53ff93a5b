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

// Config is what the operator decided. Get one from [Load]; the zero value is not valid.
type Config struct {
	Backend       string   // "process", "podman" or "docker"
	MaxConcurrent int      // runs at the same time; default: the cores of the machine
	MaxQueue      int      // runs that may wait for their turn; the next one is told "busy"
	Network       string   // what runs may reach when they name nothing: "deny"
	Vault         []string // stores that lend secrets, the first one first: "environment", "memory"
	Audit         bool     // always true: no setting may end "no row, no result"
	StateDir      string   // absolute
	SQLitePath    string   // absolute; the state database
	Profile       string   // a key of Profiles

	Limits    Limits // for runs that name none
	Caps      Limits // no run gets more
	Artifacts Artifacts

	// Profiles says what a sandbox must consist of, by the name that --profile uses. The built-in
	// ones are always there.
	Profiles map[string]Profile

	origins map[string]string // key -> where its value came from, unless from nowhere
}

// Artifacts bounds what is kept of the files that a run leaves behind.
type Artifacts struct {
	MaxCount int
	MaxMB    int64 // MB, of all files together
	Withhold bool  // files in which a secret was found are named and hashed, and not handed out
}

// defaults returns the settings of a machine with this many cores on which nothing is configured,
// but for the paths.
func defaults(cores int) Config {
	return Config{
		Backend:       "process",
		MaxConcurrent: cores,
		MaxQueue:      256,
		Network:       "deny",
		Vault:         []string{"environment"},
		Audit:         true,
		Profile:       Hardened,
		Limits: Limits{
			RAMMB: 512, TimeoutSeconds: 60, CPUCores: 1, Processes: 10, OutputBytes: 1 << 20, DiskMB: 512,
		},
		Caps: Limits{
			RAMMB:          8192,
			TimeoutSeconds: 3600,
			CPUCores:       float64(cores),
			Processes:      4096,
			OutputBytes:    64 << 20, // a run's output is in our memory as a whole
			DiskMB:         8192,     // a tmpfs: this is RAM, too
		},
		Artifacts: Artifacts{MaxCount: 1000, MaxMB: 512, Withhold: true},
		Profiles:  builtin(),
		origins:   map[string]string{},
	}
}

// Setting is one effective value, for people to read.
type Setting struct {
	Key   string // as in the file, with dots: "limits.ram_mb"
	Value string // as it would be written in the file
	From  string // "default", "FILE:LINE", "environment NAME" or "flag"
}

// Origins returns every setting with the place it came from: first those that every
// configuration has, then the profiles by name.
func (c Config) Origins() []Setting {
	var all []Setting
	for _, s := range settings() {
		all = append(all, Setting{s.key, s.show(&c), c.from(s.key)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p, key := c.Profiles[name], "profiles."+name
		all = append(all,
			Setting{key + ".require", flow(p.Require), c.from(key + ".require")},
			Setting{key + ".layers", p.Layers, c.from(key + ".layers")})
	}
	return all
}

func (c *Config) from(key string) string {
	if from, set := c.origins[key]; set {
		return from
	}
	return "default"
}
