package setup

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Place is a machine, as its paths go.
type Place struct {
	OS   string              // as runtime.GOOS has it
	Home string              // "" is unknown
	Env  func(string) string // as os.Getenv; nil is an empty environment
}

// Here returns this machine, with an empty Home if that is not known.
func Here() Place {
	home, _ := os.UserHomeDir() // "" is said where it matters
	return Place{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}

// file returns the first of the places, separated by |, whose system is this one, and which is an absolute path once
// variables are replaced: clients do not obey relative ones, or those relative to another directory.
func (p Place) file(places string) (path string) {
	for place := range strings.SplitSeq(places, " | ") {
		system, path, ok := strings.Cut(place, ":")
		if !ok {
			system, path = p.OS, place
		}
		start, rest, _ := strings.Cut(path, "/")
		if path = filepath.Join(p.start(start), filepath.FromSlash(rest)); system == p.OS && filepath.IsAbs(path) {
			return path
		}
	}
	return filepath.Join(p.Home, "unknown") // the last place of each client is in the home directory
}

// start returns the directory that a place begins with.
func (p Place) start(name string) string {
	dir := ""
	if p.Env != nil {
		dir = p.Env(strings.TrimPrefix(name, "$"))
	}
	switch {
	case name == "~":
		return p.Home
	case name == "$LM_STUDIO":
		return p.lmStudio()
	case name == "$XDG":
		name, dir = ".config", p.start("$XDG_CONFIG_HOME")
	case name == "$CONFIG" && p.OS == "darwin": // where programs with a window keep their settings
		name, dir = "Library/Application Support", ""
	case name == "$CONFIG" && p.OS == "windows":
		name, dir = "AppData/Roaming", p.start("$APPDATA")
	case name == "$CONFIG":
		return p.start("$XDG")
	default:
		return dir
	}
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(p.Home, filepath.FromSlash(name))
}

// lmStudio returns LM Studio's directory, found as its findLMStudioHome does; "" is the default.
func (p Place) lmStudio() string {
	name, err := os.ReadFile(filepath.Join(p.Home, ".lmstudio-home-pointer"))
	if dir := strings.TrimSpace(string(name)); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	if old := filepath.Join(p.Home, ".cache", "lm-studio"); exists(old) {
		return old
	}
	return ""
}
