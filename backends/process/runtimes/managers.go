package runtimes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
)

// manager is pyenv, or its counterpart for Node, which differs in names only.
type manager struct {
	name, root, version, file, hidden string
}

// versions resolves a shim of pyenv or nodenv as they do: the first of the chosen versions that
// has the program.
func (f *finder) versions(shim string, m manager) (target, how string, err error) {
	root := filepath.Dir(filepath.Dir(shim))
	if filepath.Base(filepath.Dir(shim)) != "shims" || !isDir(filepath.Join(root, "versions")) {
		root = cmp.Or(f.env.get(m.root), f.home(m.hidden))
	}
	chosen, from := f.chosen(m, root)
	for _, want := range chosen {
		if want == "system" {
			break
		}
		version, ok := installed(filepath.Join(root, "versions"), strings.TrimPrefix(want, "python-"))
		if !ok {
			f.note("%s has no version %s, which %s asks for", m.name, want, from)
			continue
		}
		target := filepath.Join(root, "versions", version, "bin", filepath.Base(shim))
		if executable(target) {
			return target, fmt.Sprintf("%s %s, chosen by %s", m.name, version, from), nil
		}
	}
	return "", "", fmt.Errorf("%s chooses no version with %s (see %s versions)", m.name, filepath.Base(shim), m.name)
}

// chosen returns the versions that pyenv would use, and the variable or file that selects them.
func (f *finder) chosen(m manager, root string) (versions []string, from string) {
	if v := f.env.get(m.version); v != "" {
		return strings.Split(v, ":"), m.version
	}
	files := []string{}
	for dir := range above(f.env.Dir) {
		files = append(files, filepath.Join(dir, m.file))
	}
	for _, path := range append(files, filepath.Join(root, "version")) {
		text, ok := readSmall(path)
		if !ok {
			continue
		}
		for _, w := range words(text) {
			versions = append(versions, w[0])
		}
		if len(versions) > 0 {
			return versions, path
		}
	}
	return []string{"system"}, "default"
}

// asdf resolves a shim of asdf: the version in ASDF_<PLUGIN>_VERSION, or in the nearest
// .tool-versions, or in the home directory's.
func (f *finder) asdf(shim string) (target, how string, err error) {
	data := cmp.Or(f.env.get("ASDF_DATA_DIR"), f.env.get("ASDF_DIR"), f.home(".asdf"))
	installs := filepath.Join(data, "installs", f.plugin)
	file := cmp.Or(f.env.get("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME"), ".tool-versions")
	variable := "ASDF_" + strings.ToUpper(f.plugin) + "_VERSION"
	if v := f.env.get(variable); v != "" {
		return f.tool("asdf", installs, strings.Fields(v), variable, shim)
	}
	for dir := range above(f.env.Dir) {
		if versions, ok := toolVersions(filepath.Join(dir, file), f.plugin); ok {
			return f.tool("asdf", installs, versions, filepath.Join(dir, file), shim)
		}
	}
	versions, _ := toolVersions(f.home(file), f.plugin)
	return f.tool("asdf", installs, versions, f.home(file), shim)
}

// mise resolves a shim of mise: the version in MISE_<TOOL>_VERSION, or in the nearest
// configuration file that names the tool, or in the user's.
func (f *finder) mise(shim string) (target, how string, err error) {
	installs := filepath.Join(f.miseData(), "installs", f.name)
	variable := "MISE_" + strings.ToUpper(f.name) + "_VERSION"
	if v := f.env.get(variable); v != "" {
		return f.tool("mise", installs, strings.Fields(v), variable, shim)
	}
	for dir := range above(f.env.Dir) {
		for _, file := range []string{"mise.local.toml", "mise.toml", ".mise.toml", ".config/mise.toml", ".tool-versions"} {
			path := filepath.Join(dir, file)
			if versions, ok := f.miseVersions(path); ok {
				return f.tool("mise", installs, versions, path, shim)
			}
		}
	}
	config := cmp.Or(f.env.get("XDG_CONFIG_HOME"), f.home(".config"))
	path := filepath.Join(config, "mise", "config.toml")
	versions, _ := f.miseVersions(path)
	return f.tool("mise", installs, versions, path, shim)
}

// miseData returns mise's data directory, by its own variable, XDG_DATA_HOME or the default.
func (f *finder) miseData() string {
	if dir := f.env.get("MISE_DATA_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(cmp.Or(f.env.get("XDG_DATA_HOME"), f.home(".local", "share")), "mise")
}

// tool returns the shim's program in the first of the versions that is installed in dir.
func (f *finder) tool(manager, dir string, versions []string, from, shim string) (target, how string, err error) {
	for _, want := range versions {
		if want == "system" {
			break
		}
		version, ok := installed(dir, strings.Replace(want, "ref:", "ref-", 1))
		if !ok {
			f.note("%s has no %s %s, which %s asks for", manager, f.name, want, from)
			continue
		}
		target := filepath.Join(dir, version, "bin", filepath.Base(shim))
		if executable(target) {
			return target, fmt.Sprintf("%s %s, chosen by %s", manager, version, from), nil
		}
	}
	return "", "", fmt.Errorf("%s chooses no version for %s", manager, shim)
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

// tomlTool finds the versions of one tool in a mise.toml. Of TOML it knows the forms that mise's
// own commands write: tool = "1.2", tool = ["1.2", "1.1"] and tool = {version = "1.2"}, below
// [tools].
func tomlTool(text, tool string) []string {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[] \t")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.Trim(strings.TrimSpace(key), `"'`)
		if section != "tools" || !ok || key != tool {
			continue
		}
		value = strings.ReplaceAll(value, "'", `"`)
		if _, after, ok := strings.Cut(value, "version"); ok {
			quoted := strings.Split(after, `"`)
			if len(quoted) > 2 {
				return quoted[1:2]
			}
			return nil
		}
		var versions []string
		for i, part := range strings.Split(value, `"`) {
			if i%2 == 1 {
				versions = append(versions, part)
			}
		}
		return versions
	}
	return nil
}
