package config

import (
	"time"
)

// Limits bound one run, or the limits that a run may request.
type Limits struct {
	RAMMB          int64   `key:"ram_mb" range:"8..16777216" default:"512" about:"MB of memory of all processes of a run together, unless the run sets a limit"`
	TimeoutSeconds float64 `key:"timeout_seconds" range:"0.1..2592000" default:"60" about:"seconds of wall time of a run"`
	CPUCores       float64 `key:"cpu_cores" range:"0.05..4096" default:"1" about:"cores that a run may use"`
	Processes      int64   `key:"processes" range:"1..4194304" default:"256" about:"processes and threads of a run"`
	OutputBytes    int64   `key:"output_bytes" range:"1024..4294967296" default:"1048576" about:"bytes of stdout, and as many of stderr, in a result"`
	DiskMB         int64   `key:"disk_mb" range:"1..16777216" default:"512" about:"MB of /workspace, /tmp and /dev/shm together"`
}

// Timeout returns the wall time limit as a duration.
func (l Limits) Timeout() time.Duration {
	return time.Duration(l.TimeoutSeconds * float64(time.Second))
}

// Approvals configures how people are asked for approval.
type Approvals struct {
	TimeoutSeconds int    `key:"timeout_seconds" range:"1..86400" default:"600" about:"seconds after which an unanswered question is denied"`
	Confirm        string `key:"confirm" oneof:"user root" default:"user" about:"approvers of requests by agents: the user of the server, or only root"`
}

// Web configures access to the web for callers. The zero value allows none.
type Web struct {
	Enabled  bool     `key:"enabled" env:"WEB" about:"agents may use web_search, fetch_webpage and browser_fetch"`
	Allow    []string `key:"allow" default:"*" about:"names that these may reach; * alone is every public host on ports 80 and 443"`
	SearXNG  string   `key:"searxng" url:"https://searx.example.com" about:"URL of a SearXNG, the first search engine"`
	BraveKey string   `key:"brave_key" is:"secret" about:"secret of the vault with the key of Brave's search API, the fallback of SearXNG"`
	Browser  string   `key:"browser" is:"path or auto" about:"path of the Chromium for browser_fetch"`
}

// Host configures access of agents to the host, outside of any sandbox.
type Host struct {
	Enabled        bool     `key:"enabled" about:"agents may use allowed commands and files of this machine"`
	Allowed        []string `key:"allowed" about:"commands that agents may run; a * matches one word that is not an option; @safe is a list of commands that change nothing"`
	Blocked        []string `key:"blocked" about:"patterns of commands that nobody may allow"`
	TimeoutSeconds int      `key:"timeout_seconds" range:"1..3600" default:"60" about:"time limit of a command in seconds"`
	Environment    []string `key:"environment" about:"names of environment variables that commands get"`
	Read           []string `key:"read" is:"directories" about:"directories that agents may read"`
	Write          []string `key:"write" is:"directories" about:"directories that agents may read and write"`
}

// directoriesKind returns the kind of a list of paths, made absolute by value.path.
func directoriesKind(of *[]string) kind {
	paths := listKind(of)
	return kind{"a list of paths", func(v value) error {
		if err := paths.set(v); err != nil {
			return err
		}
		for i, text := range *of {
			dir, err := v.absolutePath(text)
			if err != nil {
				return err
			}
			(*of)[i] = dir
		}
		return nil
	}, paths.show}
}
