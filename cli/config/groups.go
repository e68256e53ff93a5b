package config

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Limits bound one run, or bound what a run may ask for.
type Limits struct {
	RAMMB          int64   // MB (1,048,576 bytes), of all processes together
	TimeoutSeconds float64 // of wall time
	CPUCores       float64
	Processes      int64
	OutputBytes    int64 // of stdout, and as much of stderr
	DiskMB         int64 // MB, for /workspace, /tmp and /dev/shm together
}

// Timeout is the wall time as a duration.
func (l Limits) Timeout() time.Duration {
	return time.Duration(l.TimeoutSeconds * float64(time.Second))
}

// limit is one field of a Limits.
type limit struct {
	name     string
	min, max float64 // inclusive; max keeps bytes and nanoseconds within 63 bits
	whole    *int64  // the field: this, or real
	real     *float64
}

// all returns the fields, in the order in which they are shown.
func (l *Limits) all() []limit {
	return []limit{
		{"ram_mb", 8, 16 << 20, &l.RAMMB, nil},
		{"timeout_seconds", 0.1, 30 * 86400, nil, &l.TimeoutSeconds},
		{"cpu_cores", 0.05, 4096, nil, &l.CPUCores},
		{"processes", 1, 1 << 22, &l.Processes, nil}, // 1 << 22 is the kernel's highest pid
		{"output_bytes", 1024, 4 << 30, &l.OutputBytes, nil},
		{"disk_mb", 1, 16 << 20, &l.DiskMB, nil},
	}
}

func (l limit) get() float64 {
	if l.whole != nil {
		return float64(*l.whole)
	}
	return *l.real
}

// set changes the field. A number out of range, or a fraction where the field is whole, is an error.
func (l limit) set(v float64) error {
	switch {
	case math.IsNaN(v) || v < l.min || v > l.max:
		return fmt.Errorf("%s is out of range: %s to %s", decimal(v), decimal(l.min), decimal(l.max))
	case l.whole == nil:
		*l.real = v
	case v != math.Trunc(v):
		return fmt.Errorf("%s is not a whole number", decimal(v))
	default:
		*l.whole = int64(v)
	}
	return nil
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Approvals configures how people are asked.
type Approvals struct {
	TimeoutSeconds int    // seconds after which a question without an answer is denied
	Confirm        string // who approves the requests of agents to a server: its "user", or "root" alone
	Notify         bool   // a server shows questions on its user's desktop, too, where there is one
}

// approvalSettings returns the settings of Approvals, and packages.ask.
func approvalSettings() []setting {
	return []setting{
		count("approvals.timeout_seconds", "", 1, 24*60*60, func(c *Config) *int { return &c.Approvals.TimeoutSeconds }),
		word("approvals.confirm", "", []string{"user", "root"}, func(c *Config) *string { return &c.Approvals.Confirm }),
		yesNo("approvals.notify", "", func(c *Config) *bool { return &c.Approvals.Notify }),
		yesNo("packages.ask", "", func(c *Config) *bool { return &c.Packages.Ask }),
	}
}

// Web is the access of callers to the web. The zero value allows none.
type Web struct {
	Enabled        bool
	Allow          []string // names that may be reached; nil is every public host on ports 80 and 443. Those of egress.deny are denied
	SearXNG        string   // URL of a SearXNG that is asked first, "" is none
	BraveKey       string   // NAMESPACE/KEY of the secret with the key of Brave's search API, "" asks Brave nothing
	Browser        string   // path of the browser that browser_fetch starts, "" is detected
	TimeoutSeconds int      // seconds, of one call
	MaxMB          int64    // MB, of one page
}

// webSettings returns the settings of Web.
func webSettings() []setting {
	return []setting{
		yesNo("web.enabled", "WEB", func(c *Config) *bool { return &c.Web.Enabled }),
		list("web.allow", func(c *Config) *[]string { return &c.Web.Allow }),
		address("web.searxng", "https://searx.example.com", func(c *Config) *string { return &c.Web.SearXNG }),
		secretName("web.brave_key", func(c *Config) *string { return &c.Web.BraveKey }),
		pathOr(Found, "web.browser", func(c *Config) *string { return &c.Web.Browser }),
		count("web.timeout_seconds", "", 1, 600, func(c *Config) *int { return &c.Web.TimeoutSeconds }),
		count("web.max_mb", "", 1, 100, func(c *Config) *int64 { return &c.Web.MaxMB }),
	}
}

// Host is the access of agents to the host, outside of any sandbox.
type Host struct {
	Enabled        bool
	Allowed        []string // command patterns; "@safe" is a list of commands that change nothing
	Blocked        []string // command patterns that nobody may allow
	TimeoutSeconds int      // seconds, of one command
	OutputBytes    int64    // of a command's stdout, and as many of stderr, that are kept
	RAMMB          int64    // MB, of a command and all that it starts
	Processes      int      // and their threads
	CPUCores       int      // for all of them; 0 is all
	Environment    []string // names of variables that commands get
	Read           []string // directories, absolute
	Write          []string // directories that may be written, and read
	MaxFileMB      int64    // MB, of one file that is read, written or copied
}

// hostSettings returns the settings of Host.
func hostSettings() []setting {
	return []setting{
		yesNo("host.enabled", "", func(c *Config) *bool { return &c.Host.Enabled }),
		list("host.allowed", func(c *Config) *[]string { return &c.Host.Allowed }),
		list("host.blocked", func(c *Config) *[]string { return &c.Host.Blocked }),
		count("host.timeout_seconds", "", 1, 3600, func(c *Config) *int { return &c.Host.TimeoutSeconds }),
		count("host.output_bytes", "", 1024, 64<<20, func(c *Config) *int64 { return &c.Host.OutputBytes }),
		count("host.ram_mb", "", 8, 16<<20, func(c *Config) *int64 { return &c.Host.RAMMB }),
		count("host.processes", "", 1, 1<<22, func(c *Config) *int { return &c.Host.Processes }),
		count("host.cpu_cores", "", 0, 4096, func(c *Config) *int { return &c.Host.CPUCores }),
		list("host.environment", func(c *Config) *[]string { return &c.Host.Environment }),
		directories("host.read", func(c *Config) *[]string { return &c.Host.Read }),
		directories("host.write", func(c *Config) *[]string { return &c.Host.Write }),
		count("host.max_file_mb", "", 1, 1024, func(c *Config) *int64 { return &c.Host.MaxFileMB }),
	}
}

// directories returns the setting of a list of paths, made absolute by value.path.
func directories(key string, of func(*Config) *[]string) setting {
	paths := list(key, of)
	return setting{key, "", "a list of paths", func(c *Config, v value) error {
		if err := paths.set(c, v); err != nil {
			return err
		}
		for i, text := range *of(c) {
			dir, err := v.path(text)
			if err != nil {
				return err
			}
			(*of(c))[i] = dir
		}
		return nil
	}, paths.show}
}
