package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// Options are the sources of a configuration.
type Options struct {
	// File is read instead of the user's own file, and must exist. "" reads
	// $XDG_CONFIG_HOME/sandboxmcp/config.yaml if it is there.
	File string
	// Env is the environment as KEY=VALUE, from os.Environ. Besides SANDBOXMCP_ variables it is
	// asked for HOME, XDG_CONFIG_HOME and XDG_STATE_HOME.
	Env []string
	// Flags are the settings that were given on the command line, by key ("limits.ram_mb").
	Flags map[string]string
}

// Error is a setting that can't be taken. Load joins all that it found, with errors.Join.
type Error struct {
	From string // "FILE:LINE", "FILE", "environment NAME" or "flag"
	Key  string // with dots, as far as it could be told; "" when it is about the whole source
	Text string // what is wrong, and what to write instead
}

func (e *Error) Error() string {
	if e.Key == "" {
		return e.From + ": " + e.Text
	}
	return e.From + ": " + e.Key + ": " + e.Text
}

// Load returns the effective configuration. Errors are of type *Error, possibly several joined.
func Load(o Options) (Config, error) {
	l := newLoader(runtime.GOMAXPROCS(0), o.Env)
	l.file(o.File)
	l.environment()
	l.flags(o.Flags)
	l.places()
	l.lower()
	if len(l.errs) == 0 { // else they would be told twice
		l.consistent()
	}
	if len(l.errs) > 0 {
		return Config{}, errors.Join(l.errs...)
	}
	return l.c, nil
}

// loader applies the sources of a configuration, the weakest first, and collects their errors.
type loader struct {
	c        Config
	settings []setting // of c
	env      map[string]string
	errs     []error
}

// newLoader returns the loader of a machine with this many cores, with the defaults.
func newLoader(cores int, env []string) *loader {
	l := &loader{env: environment(env), c: Config{Profiles: builtin(), origins: map[string]string{}}}
	l.settings = settings(&l.c, true)
	l.c.MaxConcurrent = max(cores, 4) // many programs sleep
	l.c.Caps = Limits{
		RAMMB:          8192,
		TimeoutSeconds: 3600,
		CPUCores:       float64(cores),
		Processes:      4096,
		OutputBytes:    64 << 20, // a run's output is in our memory as a whole
		DiskMB:         8192,     // a tmpfs: this is RAM, too
	}
	return l
}

// find returns the setting of a key.
func (l *loader) find(key string) (s setting, known bool) {
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.key == key })
	if i < 0 {
		return s, false
	}
	return l.settings[i], true
}

// maxErrors bounds the errors that are reported: a file that isn't meant for us has one in every line.
const maxErrors = 20

// fail adds an error, unless there are maxErrors already. Its text is cut to 500 bytes.
func (l *loader) fail(from, key, format string, args ...any) {
	if len(l.errs) < maxErrors {
		text := fmt.Sprintf("%.500s", fmt.Sprintf(format, args...)) // it may quote a whole file
		l.errs = append(l.errs, &Error{From: from, Key: printable(key), Text: text})
	}
}

// printable makes a key that isn't ours fit for a terminal.
func printable(key string) string {
	line := safetext.Line(key)
	if line == key && len(key) <= 100 {
		return key
	}
	return fmt.Sprintf("%.100s", `"`+line+`"`)
}

// set gives a setting its value, and records the source.
func (l *loader) set(s setting, v value, from string) {
	v.home = l.home()
	if err := s.set(v); err != nil {
		l.fail(from, s.key, "%v", err)
		return
	}
	l.c.origins[s.key] = from
}

// prefix begins the name of each environment variable of this program.
const prefix = "SANDBOXMCP_"

// environment applies the variables that belong to settings. An empty variable counts as none.
func (l *loader) environment() {
	known := []string{}
	for _, s := range l.settings {
		if s.env == "" {
			continue
		}
		known = append(known, prefix+s.env)
		if text := l.env[prefix+s.env]; text != "" {
			l.set(s, value{words: []string{text}, dir: workDir()}, "environment "+prefix+s.env)
		}
	}
	// A typing error must not quietly leave a policy out. Other variables with our prefix are
	// for other parts of the program (SANDBOXMCP_SECRET_...).
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) {
			continue
		}
		for _, k := range known {
			if spelling.Distance(name, k) <= 2 {
				l.fail("environment "+name, "", "unknown variable (did you mean %s?)", k)
				break
			}
		}
	}
}

// flags applies the settings of the command line, by key.
func (l *loader) flags(flags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		if s, known := l.find(key); known {
			l.set(s, value{words: []string{flags[key]}, dir: workDir()}, "flag")
		} else {
			l.fail("flag", key, "there is no such setting: this is a bug of sandboxmcp")
		}
	}
}

// lower reduces our own default to a maximum from the environment: a variable is set without
// regard to other settings. A default in the file above it is an error, as with the file's caps.
func (l *loader) lower() {
	const limit, ceiling = "limits.ram_mb", "caps.ram_mb"
	from := l.c.From(ceiling)
	if strings.HasPrefix(from, "environment ") && l.c.From(limit) == "default" && l.c.Limits.RAMMB > l.c.Caps.RAMMB {
		l.c.Limits.RAMMB = l.c.Caps.RAMMB
		l.c.origins[limit] = from
	}
}

// consistent checks settings against each other.
func (l *loader) consistent() {
	if _, there := l.c.Profiles[l.c.Profile]; !there {
		names := slices.Sorted(maps.Keys(l.c.Profiles))
		l.fail(l.c.From("profile"), "profile", "there is no profile %q%s: use %s",
			l.c.Profile, spelling.DidYouMean(l.c.Profile, names), either(names))
	}
	l.http()
	for _, limit := range l.settings {
		name, is := strings.CutPrefix(limit.key, "limits.")
		if !is {
			continue
		}
		most, _ := l.find("caps." + name)
		if numberOf(limit) <= numberOf(most) {
			continue
		}
		from := l.c.From(limit.key)
		if from == "default" {
			from = l.c.From(most.key) // the cap was lowered below a default: that is where to look
		}
		l.fail(from, limit.key, "the default of %s (%s) is above its cap of %s (%s, %s): lower %s or raise %s",
			limit.show(), l.c.From(limit.key), most.show(), most.key, l.c.From(most.key), limit.key, most.key)
	}
}

// numberOf returns the value of a setting that is a number.
func numberOf(s setting) float64 {
	n, _ := strconv.ParseFloat(s.show(), 64)
	return n
}

// places sets the state directory and the database, unless a source has set them.
func (l *loader) places() {
	if l.c.StateDir == "" {
		base := l.xdg("XDG_STATE_HOME", ".local/state")
		if base == "" {
			l.fail("default", "state_dir", "no place for it: set HOME, XDG_STATE_HOME or state_dir")
			return
		}
		l.c.StateDir = filepath.Join(base, "sandboxmcp")
	}
	if l.c.SQLitePath == "" {
		l.c.SQLitePath = filepath.Join(l.c.StateDir, "sandboxmcp.db")
	}
}

// environment makes a map; the last of several equal names counts, as in os/exec.
func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if name, text, ok := strings.Cut(kv, "="); ok && name != "" {
			m[name] = text
		}
	}
	return m
}

// home returns the user's home directory, "" when it is not known.
func (l *loader) home() string {
	for _, name := range []string{"HOME", "USERPROFILE"} { // the second one is Windows'
		if dir := l.env[name]; filepath.IsAbs(dir) {
			return dir
		}
	}
	return ""
}

// xdg returns a base directory, "" when it is not known. The XDG specification wants relative paths
// in these variables to be ignored.
func (l *loader) xdg(name, underHome string) string {
	if dir := l.env[name]; filepath.IsAbs(dir) {
		return dir
	}
	if home := l.home(); home != "" {
		return filepath.Join(home, filepath.FromSlash(underHome))
	}
	return ""
}

// workDir returns the directory of relative paths on the command line, "" when it is gone.
func workDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}
