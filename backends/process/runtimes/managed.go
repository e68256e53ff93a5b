package runtimes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// managed returns interpreters that version managers installed without putting them on PATH: nvm
// and fnm do that in interactive shells alone, uv and mise only when asked.
func (f *finder) managed() []candidate {
	var out []candidate
	add := func(manager, dir, want string) {
		version, ok := installed(dir, want)
		if !ok {
			return
		}
		for _, name := range f.programs {
			bin := filepath.Join(dir, version, "bin")
			if path := filepath.Join(bin, name); executable(path) && safe(path) == nil {
				out = append(out, candidate{bin, name, fmt.Sprintf("%s %s, which is not on PATH", manager, version)})
				return
			}
		}
	}
	data := cmp.Or(f.env.Get("XDG_DATA_HOME"), f.home(".local", "share"))
	switch {
	case f.env.Home == "":
	case f.name == "node":
		nvm := cmp.Or(f.env.Get("NVM_DIR"), f.home(".nvm"))
		add("nvm", filepath.Join(nvm, "versions", "node"), nvmDefault(nvm))
		fnm := cmp.Or(f.env.Get("FNM_DIR"), filepath.Join(data, "fnm"))
		add("fnm", filepath.Join(fnm, "aliases"), "default")
		add("mise", filepath.Join(f.miseData(), "installs", "node"), "latest")
	case f.name == "python":
		add("uv", cmp.Or(f.env.Get("UV_PYTHON_INSTALL_DIR"), filepath.Join(data, "uv", "python")), "latest")
		add("mise", filepath.Join(f.miseData(), "installs", "python"), "latest")
		add("pyenv", filepath.Join(cmp.Or(f.env.Get("PYENV_ROOT"), f.home(".pyenv")), "versions"), "latest")
	}
	return out
}

// nvmDefault follows nvm's alias files from "default" to a version.
func nvmDefault(nvm string) string {
	name := "default"
	for range 5 {
		if !filepath.IsLocal(name) {
			return "latest"
		}
		text, ok := readSmall(filepath.Join(nvm, "alias", name))
		if !ok {
			break
		}
		name = strings.TrimSpace(text)
	}
	if name == "default" || strings.HasPrefix(name, "lts/") {
		return "latest"
	}
	return name
}

// readJSON reads a configuration file into v, and reports whether it could.
func readJSON(path string, v any) bool {
	text, ok := readSmall(path)
	return ok && json.Unmarshal([]byte(text), v) == nil
}
