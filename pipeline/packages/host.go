package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// host runs the operator's own package manager, to ask for its configuration.
type host struct {
	dir     string // the working directory, which has no project's configuration
	runtime string // the interpreter that sandboxes use, "" if that is an image's
}

// askTime bounds a package manager's answer about its configuration.
const askTime = 20 * time.Second

// configuration is a package manager's, as ask.py and ask.js print it.
type configuration struct {
	Options map[string]string
	Logins  []login
	Roots   *string // PEM: the authorities that registries' certificates are verified with, beside the system's if More
	More    bool
	Client  string // PEM: certificate and key, for registries that ask for one
}

// login is a name and a password at a host, or a token.
type login struct {
	Host                  string // npm's "//host/path/"
	Name, Password, Token string
}

func (c configuration) all(name string) []string { return strings.Fields(c.Options[name]) }

// yes reports whether an option is true, in the words of pip's strtobool.
func (c configuration) yes(name string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on", "y", "t"}, strings.ToLower(c.Options[name]))
}

// ask returns what a program prints that asks a package manager. It gets our environment, in which a part of the configuration is, but no
// secrets.
func (h host) ask(ctx context.Context, manager string, args ...string) (c configuration, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = h.dir
	cmd.Env = append(vault.WithoutSecrets(os.Environ()), "COLUMNS=1000", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_COLOR=1", "PYTHONDONTWRITEBYTECODE=1",
		"npm_config_update_notifier=false")
	cmd.WaitDelay = time.Second
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	if err = cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(trouble.String()), "\n")
		err = fmt.Errorf("%s: %w (%s)", filepath.Base(args[0]), err, shorten(userinfo().ReplaceAllString(line, "//***@")))
	} else {
		err = json.Unmarshal(out.Bytes(), &c)
	}
	if err != nil {
		return c, fmt.Errorf("ask %s for its configuration: %w", manager, err)
	}
	return c, nil
}

// lacks is the error for a package manager that is not on this host, where it is asked for its configuration.
func (h host) lacks(language string) error {
	if h.runtime != "" { // where it would have to install, too
		return missing(ownBackend, language)
	}
	return backends.Refuse(managers[language].program+" is not on this host, and it is whose configuration says where packages come from, also for containers",
		"install it here, too: its own installer or the system's package manager has it")
}

// userinfo matches the password of a URL.
var userinfo = lazy.Regexp(`//[^/\s]*@`)

// beside returns the first of the programs that exists: absolute names, or names on the PATH.
func beside(names ...string) string {
	for _, name := range names {
		if at, err := exec.LookPath(name); err == nil && filepath.IsAbs(at) {
			return at
		}
	}
	return ""
}

// rememberFor is the time for which a package manager's settings and an interpreter's kind are remembered: asking takes longer than many an
// install.
const rememberFor = time.Minute

// settings returns the configuration of a language's package manager on this host, asked once. It holds for installs in
// images, too: packages come from where the operator says, and an image's configuration has no effect.
func (s *Store) settings(ctx context.Context, b backends.Backend, language string) (settings, error) {
	key := language + " " + b.Name()
	if set, ok := s.asked.Get(key, rememberFor); ok {
		return set, nil
	}
	runtime, err := hostRuntime(ctx, b, language)
	if err != nil {
		return settings{}, err
	}
	set, err := tools[language].settings(ctx, host{s.cfg.Dir, runtime})
	if err != nil {
		return settings{}, err
	}
	s.asked.Put(key, set)
	return set, nil
}
