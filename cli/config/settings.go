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
	takes string // the values that it may have, for the reference
	set   func(*Config, value) error
	show  func(*Config) string
}

// settings returns all settings, in the order in which they are shown.
func settings() []setting {
	all := []setting{
		word("backend", "BACKEND", backends(), func(c *Config) *string { return &c.Backend }),
		count("max_concurrent", "MAX_CONCURRENT", 1, 10_000, func(c *Config) *int { return &c.MaxConcurrent }),
		count("max_queue", "", 0, 1_000_000, func(c *Config) *int { return &c.MaxQueue }),
		word("network", "NETWORK", []string{"deny", "ask"}, func(c *Config) *string { return &c.Network }),
		stores(),
		path("state_dir", "", func(c *Config) *string { return &c.StateDir }),
		path("sqlite_path", "SQLITE_PATH", func(c *Config) *string { return &c.SQLitePath }),
		profile(),
		yesNo("structured", "STRUCTURED", func(c *Config) *bool { return &c.Structured }),
		checked("git.name", "", "text", None, func(c *Config) *string { return &c.Git.Name }, checkIdentity),
		checked("git.email", "", "an address", None, func(c *Config) *string { return &c.Git.Email }, checkIdentity),
		pathOr(None, "skills", func(c *Config) *string { return &c.Skills }),
	}
	env := map[string]string{"limits.timeout_seconds": "TIMEOUT", "caps.ram_mb": "MAX_RAM_MB"}
	for i, l := range new(Limits).all() {
		all = append(all, bound("limits."+l.name, env["limits."+l.name], func(c *Config) limit { return c.Limits.all()[i] }))
	}
	for i, l := range new(Limits).all() {
		all = append(all, bound("caps."+l.name, env["caps."+l.name], func(c *Config) limit { return c.Caps.all()[i] }))
	}
	all = append(all, recordSettings()...)
	all = append(all, approvalSettings()...)
	all = append(all,
		list("egress.allow", func(c *Config) *[]string { return &c.Egress.Allow }),
		list("egress.deny", func(c *Config) *[]string { return &c.Egress.Deny }),
		list("egress.networks", func(c *Config) *[]string { return &c.Egress.Networks }),
		portList("egress.local", func(c *Config) *[]int { return &c.Egress.Local }),
		resolver("egress.resolver", func(c *Config) *string { return &c.Egress.Resolver }),
		count("egress.idle_seconds", "", 1, 24*60*60, func(c *Config) *int { return &c.Egress.IdleSeconds }),
		count("egress.connections", "", 1, 100_000, func(c *Config) *int { return &c.Egress.Connections }),
		count("artifacts.max_count", "", 1, 1_000_000, func(c *Config) *int { return &c.Artifacts.MaxCount }),
		count("artifacts.max_mb", "", 1, 16<<20, func(c *Config) *int64 { return &c.Artifacts.MaxMB }),
		yesNo("artifacts.withhold", "", func(c *Config) *bool { return &c.Artifacts.Withhold }),
		count("sessions.per_namespace", "", 1, 100_000, func(c *Config) *int { return &c.Sessions.PerNamespace }),
		count("sessions.per_identity", "", 1, 100_000, func(c *Config) *int { return &c.Sessions.PerIdentity }),
		count("sessions.total", "", 1, 100_000, func(c *Config) *int { return &c.Sessions.Total }),
		count("sessions.paused_mb", "", 1, 16<<20, func(c *Config) *int64 { return &c.Sessions.PausedMB }),
		count("sessions.idle_seconds", "", 1, 30*24*60*60, func(c *Config) *int { return &c.Sessions.IdleSeconds }),
		count("sessions.lifetime_seconds", "", 1, 30*24*60*60, func(c *Config) *int { return &c.Sessions.LifetimeSeconds }),
		yesNo("packages.scripts", "", func(c *Config) *bool { return &c.Packages.Scripts }),
		count("packages.max_mb", "", 1, 1<<20, func(c *Config) *int64 { return &c.Packages.MaxMB }),
		count("packages.cache_mb", "", 0, 1<<20, func(c *Config) *int64 { return &c.Packages.CacheMB }),
		word("validate.reject_dangerous", "", []string{"never", "low", "medium", "high"}, func(c *Config) *string { return &c.Validate.Reject }),
		list("validate.rules_off", func(c *Config) *[]string { return &c.Validate.RulesOff }),
		count("keep.max_mb", "", 1, 16<<20, func(c *Config) *int64 { return &c.Keep.MaxMB }),
		count("keep.hours", "", 1, 24*365, func(c *Config) *int { return &c.Keep.Hours }),
		yesNo("pool.enabled", "POOL", func(c *Config) *bool { return &c.Pool.Enabled }),
		count("pool.max", "", 1, 1000, func(c *Config) *int { return &c.Pool.Max }),
		count("pool.memory_mb", "", 1, 1<<20, func(c *Config) *int64 { return &c.Pool.MemoryMB }),
		count("pool.idle_seconds", "", 1, 24*60*60, func(c *Config) *int { return &c.Pool.IdleSeconds }),
	)
	all = append(all, webSettings()...)
	all = append(all, hostSettings()...)
	all = append(all, httpSettings()...)
	all = append(all, containerSettings()...)
	return append(all, kubernetesSettings()...)
}

// checked returns the setting of a text that check accepts. The word none, if there is one, stands for "".
func checked(key, env, takes, none string, of func(*Config) *string, check func(text string) error) setting {
	return setting{key, env, takes, func(c *Config, v value) error {
		text, err := v.text()
		if text == none {
			text = ""
		} else if err == nil {
			err = check(text)
		}
		if err == nil {
			*of(c) = text
		}
		return err
	}, func(c *Config) string { return quoted(cmp.Or(*of(c), none)) }}
}

// checkIdentity refuses what git can't write into a commit.
func checkIdentity(text string) error {
	if strings.ContainsAny(text, "<>\n\x00") {
		return errors.New("it is one line without < and >")
	}
	return nil
}

// word returns the setting of one of the known words.
func word(key, env string, known []string, of func(*Config) *string) setting {
	return checked(key, env, strings.Join(known, ", "), "", of, func(text string) error {
		if !slices.Contains(known, text) {
			return fmt.Errorf("%q is not known%s: use %s", text, spelling.DidYouMean(text, known), either(known))
		}
		return nil
	})
}

// count returns the setting of a whole number from lower to upper.
func count[T int | int64](key, env string, lower, upper T, of func(*Config) *T) setting {
	return setting{key, env, fmt.Sprintf("%d to %d", lower, upper), func(c *Config, v value) error {
		n, err := v.number()
		switch {
		case err != nil:
			return err
		case n != float64(T(n)):
			return fmt.Errorf("%s is not a whole number", decimal(n))
		case T(n) < lower || T(n) > upper:
			return fmt.Errorf("%s is out of range: %d to %d", decimal(n), lower, upper)
		}
		*of(c) = T(n)
		return nil
	}, func(c *Config) string { return strconv.FormatInt(int64(*of(c)), 10) }}
}

// bound returns the setting of one field of a Limits.
func bound(key, env string, of func(*Config) limit) setting {
	l := of(new(Config))
	return setting{key, env, decimal(l.min) + " to " + decimal(l.max), func(c *Config, v value) error {
		n, err := v.number()
		if err != nil {
			return err
		}
		return of(c).set(n)
	}, func(c *Config) string { return decimal(of(c).get()) }}
}

// yesNo returns the setting of a truth value.
func yesNo(key, env string, of func(*Config) *bool) setting {
	return setting{key, env, "true, false", func(c *Config, v value) error {
		b, err := v.truth()
		if err == nil {
			*of(c) = b
		}
		return err
	}, func(c *Config) string { return strconv.FormatBool(*of(c)) }}
}

// list returns the setting of a list of texts, which may be empty in a file.
func list(key string, of func(*Config) *[]string) setting {
	return setting{key, "", "a list", func(c *Config, v value) (err error) {
		if v.list && len(v.words) == 0 {
			*of(c) = nil
			return nil
		}
		*of(c), err = v.names()
		return err
	}, func(c *Config) string { return flow(*of(c)) }}
}

// System is the word for this machine's own resolver.
const System = "system"

// portList returns the setting of a list of TCP ports.
func portList(key string, of func(*Config) *[]int) setting {
	return setting{key, "", "a list of ports", func(c *Config, v value) error {
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
		*of(c) = all
		return nil
	}, func(c *Config) string { return strings.ReplaceAll(fmt.Sprint(*of(c)), " ", ", ") }}
}

// resolver returns the setting of a DNS server, by its address: a name would need a resolver.
func resolver(key string, of func(*Config) *string) setting {
	s := checked(key, "", System+", ADDRESS, ADDRESS:PORT", "", of, func(text string) error {
		_, plain := netip.ParseAddr(text)
		_, port := netip.ParseAddrPort(text)
		if text != System && plain != nil && port != nil {
			return fmt.Errorf("%q is no address: write one like 10.0.0.2, 10.0.0.2:5353 or [fd00::2]:53, or %s", text, System)
		}
		return nil
	})
	s.show = func(c *Config) string { return *of(c) }
	return s
}

// stores returns the setting of the vault's stores, each listed at most once.
func stores() setting {
	known := []string{"environment", "sealed", "keyring", "memory"}
	return setting{"vault", "VAULT", "a list of " + strings.Join(known, ", "), func(c *Config, v value) error {
		names, err := v.names()
		if err != nil {
			return err
		}
		for i, name := range names {
			if !slices.Contains(known, name) {
				return fmt.Errorf("%q is no store of secrets%s: use %s", name, spelling.DidYouMean(name, known), either(known))
			}
			if slices.Contains(names[:i], name) {
				return fmt.Errorf("store %s is listed twice", name)
			}
		}
		c.Vault = names
		return nil
	}, func(c *Config) string { return flow(c.Vault) }}
}

// profile returns the setting of the profile of runs that name none.
func profile() setting {
	return setting{"profile", "PROFILE", Hardened + ", " + Landlock + ", a name below profiles", func(c *Config, v value) (err error) {
		c.Profile, err = v.text() // whether there is one of this name is known at the end
		return err
	}, func(c *Config) string { return c.Profile }}
}

// path returns the setting of a path, made absolute by value.path.
func path(key, env string, of func(*Config) *string) setting {
	return setting{key, env, "a path", func(c *Config, v value) error {
		text, err := v.text()
		if err == nil {
			*of(c), err = v.path(text)
		}
		return err
	}, func(c *Config) string { return *of(c) }}
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
