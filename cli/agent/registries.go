package agent

import (
	"path/filepath"
	"slices"
	"strings"
)

// registries are the hosts of the package registries, by the files of a project that use them.
var registries = [][2]string{
	{"package.json", "registry.npmjs.org registry.yarnpkg.com"},
	{"pyproject.toml requirements*.txt setup.py Pipfile", "pypi.org files.pythonhosted.org"},
	{"go.mod", "proxy.golang.org sum.golang.org"},
	{"Cargo.toml", "index.crates.io static.crates.io crates.io"},
	{"Gemfile *.gemspec", "rubygems.org index.rubygems.org"},
	{"pom.xml build.gradle build.gradle.kts", "repo.maven.apache.org repo1.maven.org plugins.gradle.org"},
	{"composer.json", "repo.packagist.org packagist.org"},
	{"*.csproj *.fsproj *.sln", "api.nuget.org"},
}

// registryHosts returns the hosts of the registries that a project's packages come from.
func registryHosts(project string) (hosts []string) {
	for _, r := range registries {
		if slices.ContainsFunc(strings.Fields(r[0]), func(name string) bool {
			found, _ := filepath.Glob(filepath.Join(escapeGlob(project), name))
			return len(found) > 0
		}) {
			hosts = append(hosts, strings.Fields(r[1])...)
		}
	}
	return hosts
}

// escapeGlob escapes what filepath.Glob would take for a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
