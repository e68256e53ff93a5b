package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// value is the value of a setting in one source.
type value struct {
	words   []string // one, unless it was a list
	list    bool
	numbers error  // the error for a list of text that holds numbers; nil if it holds none
	tag     string // YAML's idea of the type, such as "!!int"; "" for sources that have only text
	home    string // for ~/ in paths, "" when unknown
	dir     string // what relative paths are relative to; "" forbids them
}

// setting is a key of the configuration.
type setting struct {
	key   string // with dots
	env   string // after SANDBOXMCP_, "" when the environment can't set it
	about string // one sentence without a full stop
	kind
}

// kind is how a value is read and shown, of one field of a Config.
type kind struct {
	takes string // the values that it may have, for the reference
	set   func(value) error
	show  func() string
}

// settings returns all settings of c, in the order in which they are shown.
func settings(c *Config) []setting {
	all := []setting{
		{"backend", "BACKEND", "what contains programs: a hardened process, containers of an engine, or pods of a cluster", word(backends(), &c.Backend)},
		{"max_concurrent", "MAX_CONCURRENT", "runs at the same time", count(1, 10_000, &c.MaxConcurrent)},
		{"max_queue", "", "runs that may wait; the next one is refused as busy", count(0, 1_000_000, &c.MaxQueue)},
		{"network", "NETWORK", "what happens to a name that is not allowed: it is denied, or a person is asked", word([]string{"deny", "ask"}, &c.Network)},
		{"vault", "VAULT", "stores that lend secrets, in the order in which they are asked", stores(&c.Vault)},
		{"state_dir", "", "directory of the log, the keys, the vault and kept results", path(&c.StateDir)},
		{"sqlite_path", "SQLITE_PATH", "database of the log", path(&c.SQLitePath)},
		{"profile", "PROFILE", "profile of runs that name none", profile(&c.Profile)},
		{"structured", "STRUCTURED", "a server gives structuredContent to every client", yesNo(&c.Structured)},
		{"git.name", "", "name of the author of commits that git makes in sandboxes", checked("text", None, &c.Git.Name, checkIdentity)},
		{"git.email", "", "address of the author of commits that git makes in sandboxes", checked("an address", None, &c.Git.Email, checkIdentity)},
		{"skills", "", "directory of skills, each a directory with a SKILL.md, which a server gives its clients as resources and prompts", pathOr(None, &c.Skills)},
	}
	env := map[string]string{"limits.timeout_seconds": "TIMEOUT", "caps.ram_mb": "MAX_RAM_MB"}
	for _, l := range c.Limits.all() {
		key := "limits." + l.name
		all = append(all, setting{key, env[key], l.about, l.kind()})
	}
	for _, l := range c.Caps.all() {
		key := "caps." + l.name
		all = append(all, setting{key, env[key], "the highest limits." + l.name + " that a caller can ask for", l.kind()})
	}
	all = slices.Concat(all, recordSettings(c), approvalSettings(c), []setting{
		{"egress.allow", "", "names that runs may reach without asking for them, and that callers may name", list(&c.Egress.Allow)},
		{"egress.deny", "", "names that nobody may reach", list(&c.Egress.Deny)},
		{"egress.networks", "", "private networks and addresses that names may lead to", list(&c.Egress.Networks)},
		{"egress.local", "", "ports of this machine's loopback that runs and the web tools may reach as localhost", portList(&c.Egress.Local)},
		{"egress.resolver", "", "DNS server that is asked for allowed names", resolver(&c.Egress.Resolver)},
		{"egress.idle_seconds", "", "seconds after which a connection without traffic is ended", count(1, 24*60*60, &c.Egress.IdleSeconds)},
		{"egress.connections", "", "connections of one sandbox at the same time", count(1, 100_000, &c.Egress.Connections)},
		{"artifacts.max_count", "", "files of a run that are kept", count(1, 1_000_000, &c.Artifacts.MaxCount)},
		{"artifacts.max_mb", "", "MB of the files of a run that are kept", count(1, 16<<20, &c.Artifacts.MaxMB)},
		{"artifacts.withhold", "", "files in which a lent secret is found are named and hashed, and not handed out", yesNo(&c.Artifacts.Withhold)},
		{"sessions.per_namespace", "", "sessions of one namespace at the same time", count(1, 100_000, &c.Sessions.PerNamespace)},
		{"sessions.per_identity", "", "sessions at the same time that one identity has made over HTTP", count(1, 100_000, &c.Sessions.PerIdentity)},
		{"sessions.total", "", "sessions at the same time", count(1, 100_000, &c.Sessions.Total)},
		{"sessions.paused_mb", "", "MB of the files of all paused sessions, which are kept until sessions.lifetime_seconds have passed, or the server ends", count(1, 16<<20, &c.Sessions.PausedMB)},
		{"sessions.idle_seconds", "", "seconds after which an unused session ends", count(1, 30*24*60*60, &c.Sessions.IdleSeconds)},
		{"sessions.lifetime_seconds", "", "seconds after which any session ends", count(1, 30*24*60*60, &c.Sessions.LifetimeSeconds)},
		{"packages.scripts", "", "packages may run install scripts and be built from source", yesNo(&c.Packages.Scripts)},
		{"packages.max_mb", "", "MB of the packages of one namespace and language", count(1, 1<<20, &c.Packages.MaxMB)},
		{"packages.cache_mb", "", "MB that are kept of packages that were fetched and unpacked, for whoever installs the same; 0 is none", count(0, 1<<20, &c.Packages.CacheMB)},
		{"validate.reject_dangerous", "", "severity from which dangerous patterns in code are refused", word([]string{"never", "low", "medium", "high"}, &c.Validate.Reject)},
		{"validate.rules_off", "", "rules that find nothing", list(&c.Validate.RulesOff)},
		{"keep.max_mb", "", "MB of outputs and artifacts that are kept for get_artifacts", count(1, 16<<20, &c.Keep.MaxMB)},
		{"keep.hours", "", "hours after which they are removed", count(1, 24*365, &c.Keep.Hours)},
		{"pool.enabled", "POOL", "a server keeps sandboxes ready for programs that may come", yesNo(&c.Pool.Enabled)},
		{"pool.max", "", "sandboxes that are ready at the same time", count(1, 1000, &c.Pool.Max)},
		{"pool.memory_mb", "", "MB of all that are ready", count(1, 1<<20, &c.Pool.MemoryMB)},
		{"pool.idle_seconds", "", "seconds after which those of a kind end that no run has asked for", count(1, 24*60*60, &c.Pool.IdleSeconds)},
	})
	return slices.Concat(all, webSettings(c), hostSettings(c), httpSettings(c), containerSettings(c), kubernetesSettings(c))
}

// checked is a text that check accepts. The word none, if there is one, stands for "".
func checked(takes, none string, of *string, check func(text string) error) kind {
	return kind{takes, func(v value) error {
		text, err := v.text()
		if text == none {
			text = ""
		} else if err == nil {
			err = check(text)
		}
		if err == nil {
			*of = text
		}
		return err
	}, func() string { return quoted(cmp.Or(*of, none)) }}
}

// checkIdentity refuses what git can't write into a commit.
func checkIdentity(text string) error {
	if strings.ContainsAny(text, "<>\n\x00") {
		return errors.New("it is one line without < and >")
	}
	return nil
}

// word is one of the known words.
func word(known []string, of *string) kind {
	return checked(strings.Join(known, ", "), "", of, func(text string) error {
		if !slices.Contains(known, text) {
			return fmt.Errorf("%q is not known%s: use %s", text, spelling.DidYouMean(text, known), either(known))
		}
		return nil
	})
}

// count is a whole number from lower to upper.
func count[T int | int64](lower, upper T, of *T) kind {
	return kind{fmt.Sprintf("%d to %d", lower, upper), func(v value) error {
		n, err := v.number()
		switch {
		case err != nil:
			return err
		case n != float64(T(n)):
			return fmt.Errorf("%s is not a whole number", decimal(n))
		case T(n) < lower || T(n) > upper:
			return fmt.Errorf("%s is out of range: %d to %d", decimal(n), lower, upper)
		}
		*of = T(n)
		return nil
	}, func() string { return fmt.Sprint(*of) }}
}

// yesNo is a truth value.
func yesNo(of *bool) kind {
	return kind{"true, false", func(v value) error {
		b, err := v.truth()
		if err == nil {
			*of = b
		}
		return err
	}, func() string { return strconv.FormatBool(*of) }}
}

// list is a list of texts, which may be empty in a file.
func list(of *[]string) kind {
	return checkedList("a list", of, func(string, []string) error { return nil })
}

// checkedList is a list of texts that check accepts, each with those before it.
func checkedList(takes string, of *[]string, check func(word string, before []string) error) kind {
	return kind{takes, func(v value) error {
		if v.list && len(v.words) == 0 {
			*of = nil
			return nil
		}
		words, err := v.names()
		for i, word := range words {
			if err == nil {
				err = check(word, words[:i])
			}
		}
		*of = words
		return err
	}, func() string { return flow(*of) }}
}

// System is the word for this machine's own resolver.
const System = "system"

// portList is a list of TCP ports.
func portList(of *[]int) kind {
	return kind{"a list of ports", func(v value) error {
		v.numbers = nil // they are what is wanted
		if v.tag == "!!int" {
			v.tag = ""
		}
		var words []string
		var err error
		if len(v.words) > 0 {
			if words, err = v.names(); err != nil {
				return err
			}
		}
		var all []int
		for _, w := range words {
			port, err := strconv.Atoi(w)
			if err != nil || port < 1 || port > 65535 {
				return fmt.Errorf("%q is no port: write numbers from 1 to 65535", w)
			}
			all = append(all, port)
		}
		*of = all
		return nil
	}, func() string { return strings.ReplaceAll(fmt.Sprint(*of), " ", ", ") }}
}

// resolver is a DNS server, by its address: a name would need a resolver.
func resolver(of *string) kind {
	k := checked(System+", ADDRESS, ADDRESS:PORT", "", of, func(text string) error {
		_, plain := netip.ParseAddr(text)
		_, port := netip.ParseAddrPort(text)
		if text != System && plain != nil && port != nil {
			return fmt.Errorf("%q is no address: write one like 10.0.0.2, 10.0.0.2:5353 or [fd00::2]:53, or %s", text, System)
		}
		return nil
	})
	return unquoted(k, of)
}

// unquoted is a kind whose value is shown without quotes.
func unquoted(k kind, of *string) kind {
	k.show = func() string { return *of }
	return k
}

// stores are the vault's, each listed at most once.
func stores(of *[]string) kind {
	known := []string{"environment", "sealed", "keyring", "memory"}
	return checkedList("a list of "+strings.Join(known, ", "), of, func(name string, before []string) error {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("%q is no store of secrets%s: use %s", name, spelling.DidYouMean(name, known), either(known))
		case slices.Contains(before, name):
			return fmt.Errorf("store %s is listed twice", name)
		}
		return nil
	})
}

// profile is the profile of runs that name none. Whether there is one of this name is known at the end.
func profile(of *string) kind {
	return unquoted(checked(Hardened+", "+Landlock+", a name below profiles", "", of, func(string) error { return nil }), of)
}

// path is a path, made absolute by value.path.
func path(of *string) kind {
	return kind{"a path", func(v value) error {
		text, err := v.text()
		if err == nil {
			*of, err = v.path(text)
		}
		return err
	}, func() string { return *of }}
}

// path makes text absolute. A relative path in a file would mean another place for every working
// directory, so it is an error there.
func (v value) path(text string) (string, error) {
	switch rest, inHome := strings.CutPrefix(text, "~/"); {
	case strings.ContainsRune(text, 0):
		return "", errors.New("a path can't contain NUL bytes")
	case text == ":memory:":
		return "", errors.New("the database must be a file: what is acknowledged has to survive")
	case inHome && v.home == "":
		return "", errors.New("the home directory is not known: write an absolute path")
	case inHome:
		return filepath.Join(v.home, rest), nil
	case filepath.IsAbs(text):
		return filepath.Clean(text), nil
	case v.dir == "":
		return "", fmt.Errorf("%q is relative: write an absolute path, or one that begins with ~/", text)
	default:
		return filepath.Join(v.dir, text), nil
	}
}
