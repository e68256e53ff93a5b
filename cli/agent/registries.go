package agent

import (
	"context"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
)

// managers are package managers, each with the files of a project that use it, and the command that prints the URLs
// of its registries.
var managers = []struct {
	files   string
	command []string
}{
	{"package.json", []string{"npm", "config", "get", "registry"}},
	{"pyproject.toml requirements*.txt setup.py Pipfile", []string{"pip3", "install", "--help"}}, // with the default of --index-url
	{"go.mod", []string{"go", "env", "GOPROXY", "GOSUMDB"}},
}

// managerTimeout bounds the run of one.
const managerTimeout = 10 * time.Second

var (
	registryURL = lazy.Regexp(`https?://[^\s,|)]+`)
	sumDB       = lazy.Regexp(`(?m)^[a-z0-9.-]+\.[a-z]{2,}$`) // the checksum database of Go has no scheme
)

// registryHosts returns the hosts of the registries that the package managers of a project are configured for. One that
// is not installed here has none.
func registryHosts(ctx context.Context, project string) (hosts []string) {
	for _, m := range managers {
		used := slices.ContainsFunc(strings.Fields(m.files), func(name string) bool {
			found, _ := filepath.Glob(filepath.Join(escapeGlob(project), name))
			return len(found) > 0
		})
		if !used {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, managerTimeout)
		cmd := exec.CommandContext(ctx, m.command[0], m.command[1:]...)
		cmd.Dir = "/" // a project's own configuration is not the person's
		out, _ := cmd.Output()
		cancel()
		for _, text := range registryURL().FindAllString(string(out), -1) {
			if u, err := url.Parse(text); err == nil {
				hosts = append(hosts, u.Hostname())
				if files := packages.FilesOf(u.Hostname()); files != "" {
					hosts = append(hosts, files)
				}
			}
		}
		if m.command[0] == "go" {
			hosts = append(hosts, sumDB().FindAllString(string(out), -1)...)
		}
	}
	return hosts
}

// escapeGlob escapes what filepath.Glob would take for a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
