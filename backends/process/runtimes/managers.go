package runtimes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// manager is a version manager, with its ways to choose a version: by a variable, else by a file in the working directory or
// above it, else by the user's own file.
type manager struct {
	name      string
	installed string // directory of the versions
	variable  string // "" if there is none; its versions are separated by separator
	separator rune
	files     []string // names in each directory
	own       string
	read      func(path string) ([]string, bool) // returns the versions that a file chooses
}

// maxVersions bounds the versions of one choice: each is looked for, and a file comes with a project.
const maxVersions = 100

// choose returns a shim's program in the first of the chosen versions that is installed.
func (f *finder) choose(shim string, m manager) (target, how string, err error) {
	from := m.variable
	versions := strings.FieldsFunc(f.env.Get(from), func(r rune) bool { return r == m.separator })
	if len(versions) == 0 {
		versions, from = f.nearest(m)
	}
	for _, want := range versions[:min(len(versions), maxVersions)] {
		if want == "system" {
			break
		}
		version, ok := installed(m.installed, strings.TrimPrefix(strings.Replace(want, "ref:", "ref-", 1), "python-"))
		if !ok {
			f.note("%s has no version %s of %s, which %s asks for", m.name, want, f.name, from)
			continue
		}
		target := filepath.Join(m.installed, version, "bin", filepath.Base(shim))
		if executable(target) {
			return target, fmt.Sprintf("%s %s, chosen by %s", m.name, version, from), nil
		}
	}
	return "", "", fmt.Errorf("%s chooses no version for %s", m.name, shim)
}

// nearest returns the versions that the nearest of a manager's files chooses, and the name of the file.
func (f *finder) nearest(m manager) (versions []string, from string) {
	for dir := range above(f.env.Dir) {
		for _, file := range m.files {
			path := filepath.Join(dir, file)
			if versions, ok := m.read(path); ok {
				return versions, path
			}
		}
	}
	versions, _ = m.read(m.own)
	return versions, m.own
}

// versions returns pyenv or nodenv, which differ in names only: env is PYENV or NODENV.
func (f *finder) versions(shim, name, env, file string) manager {
	root := filepath.Dir(filepath.Dir(shim))
	if filepath.Base(filepath.Dir(shim)) != "shims" || !isDir(filepath.Join(root, "versions")) {
		root = cmp.Or(f.env.Get(env+"_ROOT"), f.home("."+name))
	}
	return manager{name, filepath.Join(root, "versions"), env + "_VERSION", ':', []string{file}, filepath.Join(root, "version"), func(path string) (versions []string, ok bool) {
		text, ok := readSmall(path)
		for _, w := range words(text) {
			versions = append(versions, w[0])
		}
		return versions, ok && len(versions) > 0
	}}
}

// asdf returns asdf for a language.
func (f *finder) asdf() manager {
	data := cmp.Or(f.env.Get("ASDF_DATA_DIR"), f.env.Get("ASDF_DIR"), f.home(".asdf"))
	file := cmp.Or(f.env.Get("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME"), ".tool-versions")
	return manager{"asdf", filepath.Join(data, "installs", f.plugin), "ASDF_" + strings.ToUpper(f.plugin) + "_VERSION", ' ', []string{file}, f.home(file),
		func(path string) ([]string, bool) { return toolVersions(path, f.plugin) }}
}

// mise returns mise for a language.
func (f *finder) mise() manager {
	own := filepath.Join(cmp.Or(f.env.Get("XDG_CONFIG_HOME"), f.home(".config")), "mise", "config.toml")
	files := []string{"mise.local.toml", "mise.toml", ".mise.toml", ".config/mise.toml", ".tool-versions"}
	return manager{"mise", filepath.Join(f.miseData(), "installs", f.name), "MISE_" + strings.ToUpper(f.name) + "_VERSION", ' ', files, own, f.miseVersions}
}

// volta returns volta: package.json files pin Node, and the user's own file has another form.
func (f *finder) volta() manager {
	root := cmp.Or(f.env.Get("VOLTA_HOME"), f.home(".volta"))
	own := filepath.Join(root, "tools", "user", "platform.json")
	return manager{"volta", filepath.Join(root, "tools", "image", "node"), "", 0, []string{"package.json"}, own, func(path string) ([]string, bool) {
		var project struct{ Volta struct{ Node string } }
		var user struct{ Node struct{ Runtime string } }
		if path == own {
			ok := readJSON(path, &user) && user.Node.Runtime != ""
			return strings.Fields(user.Node.Runtime), ok
		}
		ok := readJSON(path, &project) && project.Volta.Node != ""
		return strings.Fields(project.Volta.Node), ok
	}}
}

// miseData returns mise's data directory, by its own variable, XDG_DATA_HOME or the default.
func (f *finder) miseData() string {
	if dir := f.env.Get("MISE_DATA_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(cmp.Or(f.env.Get("XDG_DATA_HOME"), f.home(".local", "share")), "mise")
}

// toolVersions reads the versions of one tool in a .tool-versions file.
func toolVersions(path, tool string) ([]string, bool) {
	text, ok := readSmall(path)
	if !ok {
		return nil, false
	}
	for _, w := range words(text) {
		if w[0] == tool && len(w) > 1 {
			return w[1:], true
		}
	}
	return nil, false
}

// miseVersions reads the versions of the language in a configuration file of mise.
func (f *finder) miseVersions(path string) ([]string, bool) {
	for _, tool := range []string{f.name, f.plugin} {
		if !strings.HasSuffix(path, ".toml") {
			if versions, ok := toolVersions(path, tool); ok {
				return versions, true
			}
			continue
		}
		if text, ok := readSmall(path); ok {
			if versions := tomlTool(text, tool); len(versions) > 0 {
				return versions, true
			}
		}
	}
	return nil, false
}

// tomlTool finds the versions of one tool in a mise.toml: tool = "1.2", tool = ["1.2", "1.1"] or tool = {version = "1.2"},
// below [tools].
func tomlTool(text, tool string) []string {
	var config struct{ Tools map[string]any }
	if toml.Unmarshal([]byte(text), &config) != nil {
		return nil
	}
	chosen := config.Tools[tool]
	if table, ok := chosen.(map[string]any); ok {
		chosen = table["version"]
	}
	list, ok := chosen.([]any)
	if !ok {
		list = []any{chosen}
	}
	var versions []string
	for _, one := range list {
		if version, ok := one.(string); ok {
			versions = append(versions, version)
		}
	}
	return versions
}
