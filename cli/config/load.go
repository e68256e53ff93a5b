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
	// File is read instead of the user's own file, and must exist. For "", Load reads
	// $XDG_CONFIG_HOME/sandboxmcp/config.yaml if it exists.
	File string
	// Env is the environment as KEY=VALUE, as from os.Environ. Load reads SANDBOXMCP_ variables, HOME, XDG_CONFIG_HOME and
	// XDG_STATE_HOME.
	Env []string
	// Flags are the settings of the command line, by key ("limits.ram_mb").
	Flags map[string]string
}

// Error is an invalid setting. Load joins all errors with errors.Join.
type Error struct {
	From string // "FILE:LINE", "FILE", "environment NAME" or "flag"
	Key  string // with dots, as far as known; "" if the error concerns the whole source
	Text string // the error and the remedy
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
	l.applyFile(o.File)
	l.applyEnvironment()
	l.applyFlags(o.Flags)
	l.setPaths()
	l.lowerDefaults()
	if len(l.errs) == 0 { // later checks would repeat the errors
		l.checkConsistency()
	}
	if len(l.errs) > 0 {
		return Config{}, errors.Join(l.errs...)
	}
	return l.c, nil
}

// loader applies the sources of a configuration, weakest first, and collects their errors.
type loader struct {
	c        Config
	settings []setting // of c
	env      map[string]string
	errs     []error
}

// newLoader returns a loader with the defaults of a machine with that many cores.
func newLoader(cores int, env []string) *loader {
	l := &loader{env: parseEnvironment(env), c: Config{Profiles: builtinProfiles(), origins: map[string]string{}}}
	l.settings = settings(&l.c, true)
	l.c.MaxConcurrent = max(cores, 4) // many programs sleep
	l.c.Caps = Limits{
		RAMMB:          8192,
		TimeoutSeconds: 3600,
		CPUCores:       float64(cores),
		Processes:      4096,
		OutputBytes:    64 << 20, // the whole output of a run is in our memory
		DiskMB:         8192,     // a tmpfs: this is memory, too
	}
	return l
}

// findSetting returns the setting of a key.
func (l *loader) findSetting(key string) (s setting, known bool) {
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.key == key })
	if i < 0 {
		return s, false
	}
	return l.settings[i], true
}

// maxErrors bounds the reported errors: a file of another kind has one in every line.
const maxErrors = 20

// fail adds an error unless there are maxErrors already, and cuts its text to 500 bytes.
func (l *loader) fail(from, key, format string, args ...any) {
	if len(l.errs) < maxErrors {
		text := fmt.Sprintf("%.500s", fmt.Sprintf(format, args...)) // the text may quote a whole file
		l.errs = append(l.errs, &Error{From: from, Key: printable(key), Text: text})
	}
}

// printable escapes and cuts an unknown key for a terminal.
func printable(key string) string {
	line := safetext.Line(key)
	if line == key && len(key) <= 100 {
		return key
	}
	return fmt.Sprintf("%.100s", `"`+line+`"`)
}

// set sets the value of a setting and records its source.
func (l *loader) set(s setting, v value, from string) {
	v.home = l.homeDir()
	if err := s.set(v); err != nil {
		l.fail(from, s.key, "%v", err)
		return
	}
	l.c.origins[s.key] = from
}

// envPrefix begins the name of each environment variable of this program.
const envPrefix = "SANDBOXMCP_"

// applyEnvironment applies the variables of settings. An empty variable counts as unset.
func (l *loader) applyEnvironment() {
	known := []string{}
	for _, s := range l.settings {
		if s.env == "" {
			continue
		}
		known = append(known, envPrefix+s.env)
		if text := l.env[envPrefix+s.env]; text != "" {
			l.set(s, value{words: []string{text}, dir: workDir()}, "environment "+envPrefix+s.env)
		}
	}
	// A misspelled variable must not silently drop a policy. Other variables with the prefix belong to other parts of the
	// program (SANDBOXMCP_SECRET_...).
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) {
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

// applyFlags applies the settings of the command line, by key.
func (l *loader) applyFlags(flags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		if s, known := l.findSetting(key); known {
			l.set(s, value{words: []string{flags[key]}, dir: workDir()}, "flag")
		} else {
			l.fail("flag", key, "unknown setting: this is a bug in sandboxmcp")
		}
	}
}

// lowerDefaults reduces a built-in default to a maximum from the environment, since a variable is set without regard to other
// settings. A default in the file above it is an error, as with the file's caps.
func (l *loader) lowerDefaults() {
	const limit, ceiling = "limits.ram_mb", "caps.ram_mb"
	from := l.c.From(ceiling)
	if strings.HasPrefix(from, "environment ") && l.c.From(limit) == "default" && l.c.Limits.RAMMB > l.c.Caps.RAMMB {
		l.c.Limits.RAMMB = l.c.Caps.RAMMB
		l.c.origins[limit] = from
	}
}

// checkConsistency validates settings against each other.
func (l *loader) checkConsistency() {
	if _, there := l.c.Profiles[l.c.Profile]; !there {
		names := slices.Sorted(maps.Keys(l.c.Profiles))
		l.fail(l.c.From("profile"), "profile", "unknown profile %q%s: use %s",
			l.c.Profile, spelling.DidYouMean(l.c.Profile, names), quotedChoices(names))
	}
	l.checkHTTP()
	for _, limit := range l.settings {
		name, is := strings.CutPrefix(limit.key, "limits.")
		if !is {
			continue
		}
		most, _ := l.findSetting("caps." + name)
		if settingNumber(limit) <= settingNumber(most) {
			continue
		}
		from := l.c.From(limit.key)
		if from == "default" {
			from = l.c.From(most.key) // the cap was lowered below a default: name the place of the cap
		}
		l.fail(from, limit.key, "the default of %s (%s) is above its cap of %s (%s, %s): lower %s or raise %s",
			limit.show(), l.c.From(limit.key), most.show(), most.key, l.c.From(most.key), limit.key, most.key)
	}
}

// settingNumber returns the value of a numeric setting.
func settingNumber(s setting) float64 {
	n, _ := strconv.ParseFloat(s.show(), 64)
	return n
}

// setPaths sets the state directory and the database unless a source has set them.
func (l *loader) setPaths() {
	if l.c.StateDir == "" {
		base := l.xdgDir("XDG_STATE_HOME", ".local/state")
		if base == "" {
			l.fail("default", "state_dir", "no directory for it: set HOME, XDG_STATE_HOME or state_dir")
			return
		}
		l.c.StateDir = filepath.Join(base, "sandboxmcp")
	}
	if l.c.SQLitePath == "" {
		l.c.SQLitePath = filepath.Join(l.c.StateDir, "sandboxmcp.db")
	}
}

// parseEnvironment converts an environment to a map; the last of several equal names counts, as in os/exec.
func parseEnvironment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if name, text, ok := strings.Cut(kv, "="); ok && name != "" {
			m[name] = text
		}
	}
	return m
}

// homeDir returns the user's home directory, or "" if unknown.
func (l *loader) homeDir() string {
	for _, name := range []string{"HOME", "USERPROFILE"} { // USERPROFILE on Windows
		if dir := l.env[name]; filepath.IsAbs(dir) {
			return dir
		}
	}
	return ""
}

// xdgDir returns a base directory, or "" if unknown. The XDG specification says to ignore relative paths in these
// variables.
func (l *loader) xdgDir(name, underHome string) string {
	if dir := l.env[name]; filepath.IsAbs(dir) {
		return dir
	}
	if home := l.homeDir(); home != "" {
		return filepath.Join(home, filepath.FromSlash(underHome))
	}
	return ""
}

// workDir returns the directory of relative paths on the command line, or "" if it was removed.
func workDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}
