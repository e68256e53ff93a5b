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
	chosen, from := strings.Split(f.env.get(m.version), ":"), m.version
	if chosen[0] == "" {
		chosen, from = f.nearest([]string{m.file}, filepath.Join(root, "version"), func(path string) (versions []string, ok bool) {
			text, ok := readSmall(path)
			for _, w := range words(text) {
				versions = append(versions, w[0])
			}
			return versions, ok && len(versions) > 0
		})
	}
	return f.tool(m.name, filepath.Join(root, "versions"), chosen, from, shim)
}

// nearest returns the versions that the first of these files chooses, in the working directory or above it, or those of
// the user's own file, and the name of the file.
func (f *finder) nearest(files []string, own string, read func(path string) ([]string, bool)) (versions []string, from string) {
	for dir := range above(f.env.Dir) {
		for _, file := range files {
			path := filepath.Join(dir, file)
			if versions, ok := read(path); ok {
				return versions, path
			}
		}
	}
	versions, _ = read(own)
	return versions, own
}

// asdf resolves a shim of asdf: the version in ASDF_<PLUGIN>_VERSION, or in the nearest
// .tool-versions, or in the home directory's.
func (f *finder) asdf(shim string) (target, how string, err error) {
	data := cmp.Or(f.env.get("ASDF_DATA_DIR"), f.env.get("ASDF_DIR"), f.home(".asdf"))
	file := cmp.Or(f.env.get("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME"), ".tool-versions")
	from := "ASDF_" + strings.ToUpper(f.plugin) + "_VERSION"
	versions := strings.Fields(f.env.get(from))
	if len(versions) == 0 {
		versions, from = f.nearest([]string{file}, f.home(file), func(path string) ([]string, bool) { return toolVersions(path, f.plugin) })
	}
	return f.tool("asdf", filepath.Join(data, "installs", f.plugin), versions, from, shim)
}

// mise resolves a shim of mise: the version in MISE_<TOOL>_VERSION, or in the nearest
// configuration file that names the tool, or in the user's.
func (f *finder) mise(shim string) (target, how string, err error) {
	from := "MISE_" + strings.ToUpper(f.name) + "_VERSION"
	versions := strings.Fields(f.env.get(from))
	if len(versions) == 0 {
		own := filepath.Join(cmp.Or(f.env.get("XDG_CONFIG_HOME"), f.home(".config")), "mise", "config.toml")
		files := []string{"mise.local.toml", "mise.toml", ".mise.toml", ".config/mise.toml", ".tool-versions"}
		versions, from = f.nearest(files, own, f.miseVersions)
	}
	return f.tool("mise", filepath.Join(f.miseData(), "installs", f.name), versions, from, shim)
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
		version, ok := installed(dir, strings.TrimPrefix(strings.Replace(want, "ref:", "ref-", 1), "python-"))
		if !ok {
			f.note("%s has no version %s of %s, which %s asks for", manager, want, f.name, from)
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
