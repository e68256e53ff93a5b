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
	name, about string
	min, max    float64 // inclusive; max keeps bytes and nanoseconds within 63 bits
	whole       *int64  // the field: this, or real
	real        *float64
}

// all returns the fields, in the order in which they are shown.
func (l *Limits) all() []limit {
	return []limit{
		{"ram_mb", "MB of memory of all processes of a run together, for runs that name no limit", 8, 16 << 20, &l.RAMMB, nil},
		{"timeout_seconds", "seconds of wall time of a run", 0.1, 30 * 86400, nil, &l.TimeoutSeconds},
		{"cpu_cores", "cores that a run may use", 0.05, 4096, nil, &l.CPUCores},
		{"processes", "processes and threads of a run", 1, 1 << 22, &l.Processes, nil}, // 1 << 22 is the kernel's highest pid
		{"output_bytes", "bytes of stdout, and as many of stderr, that a result keeps", 1024, 4 << 30, &l.OutputBytes, nil},
		{"disk_mb", "MB of /workspace, /tmp and /dev/shm together", 1, 16 << 20, &l.DiskMB, nil},
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

// kind returns how the field is read and shown.
func (l limit) kind() kind {
	return kind{decimal(l.min) + " to " + decimal(l.max), func(v value) error {
		n, err := v.number()
		if err == nil {
			err = l.set(n)
		}
		return err
	}, func() string { return decimal(l.get()) }}
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Approvals configures how people are asked.
type Approvals struct {
	TimeoutSeconds int    // seconds after which a question without an answer is denied
	Confirm        string // who approves the requests of agents to a server: its "user", or "root" alone
	Notify         bool   // a server shows questions on its user's desktop, too, where there is one
}

// approvalSettings returns the settings of Approvals, and packages.ask.
func approvalSettings(c *Config) []setting {
	return []setting{
		{"approvals.timeout_seconds", "", "seconds after which a question without an answer is denied", count(1, 24*60*60, &c.Approvals.TimeoutSeconds)},
		{"approvals.confirm", "", "who may approve what agents ask for: the user of the server, or root alone", word([]string{"user", "root"}, &c.Approvals.Confirm)},
		{"approvals.notify", "", "questions are shown on the desktop, too", yesNo(&c.Approvals.Notify)},
		{"packages.ask", "", "a person approves each package that is installed", yesNo(&c.Packages.Ask)},
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
func webSettings(c *Config) []setting {
	return []setting{
		{"web.enabled", "WEB", "agents may use web_search, fetch_webpage and browser_fetch", yesNo(&c.Web.Enabled)},
		{"web.allow", "", "names that these reach; an empty list is every public host on ports 80 and 443", list(&c.Web.Allow)},
		{"web.searxng", "", "URL of a SearXNG that is asked first", address("https://searx.example.com", &c.Web.SearXNG)},
		{"web.brave_key", "", "secret of the vault with the key of Brave's search API, which is asked if SearXNG has not answered", secretName(&c.Web.BraveKey)},
		{"web.browser", "", "Chromium that browser_fetch starts", pathOr(Found, &c.Web.Browser)},
		{"web.timeout_seconds", "", "seconds of one call", count(1, 600, &c.Web.TimeoutSeconds)},
		{"web.max_mb", "", "MB of one page", count(1, 100, &c.Web.MaxMB)},
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
func hostSettings(c *Config) []setting {
	return []setting{
		{"host.enabled", "", "agents may use commands and files of this machine, as far as they are allowed", yesNo(&c.Host.Enabled)},
		{"host.allowed", "", "commands that agents may run; a * is for programs whose options are known; @safe is a list of commands that change nothing", list(&c.Host.Allowed)},
		{"host.blocked", "", "patterns of commands that nobody may allow", list(&c.Host.Blocked)},
		{"host.timeout_seconds", "", "seconds of one command", count(1, 3600, &c.Host.TimeoutSeconds)},
		{"host.output_bytes", "", "bytes of stdout, and as many of stderr, that are kept of a command", count(1024, 64<<20, &c.Host.OutputBytes)},
		{"host.ram_mb", "", "MB of memory of a command and all that it starts", count(8, 16<<20, &c.Host.RAMMB)},
		{"host.processes", "", "processes and threads of a command", count(1, 1<<22, &c.Host.Processes)},
		{"host.cpu_cores", "", "cores that a command may use; 0 is all", count(0, 4096, &c.Host.CPUCores)},
		{"host.environment", "", "names of variables that commands get", list(&c.Host.Environment)},
		{"host.read", "", "directories that agents may read", directories(&c.Host.Read)},
		{"host.write", "", "directories that agents may read and write", directories(&c.Host.Write)},
		{"host.max_file_mb", "", "MB of one file that is read, written or copied", count(1, 1024, &c.Host.MaxFileMB)},
	}
}

// directories is a list of paths, made absolute by value.path.
func directories(of *[]string) kind {
	paths := list(of)
	return kind{"a list of paths", func(v value) error {
		if err := paths.set(v); err != nil {
			return err
		}
		for i, text := range *of {
			dir, err := v.path(text)
			if err != nil {
				return err
			}
			(*of)[i] = dir
		}
		return nil
	}, paths.show}
}
