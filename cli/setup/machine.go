package setup

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Machine describes the paths of a machine.
type Machine struct {
	OS   string              // as runtime.GOOS
	Home string              // "" if unknown
	Env  func(string) string // as os.Getenv; nil is an empty environment
}

// ThisMachine returns this machine. Home is empty if it is unknown.
func ThisMachine() Machine {
	home, _ := os.UserHomeDir() // "" is reported where it matters
	return Machine{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}

// clientFile returns the first of the places, separated by |, that is for this system and is an absolute path once variables
// are replaced: clients ignore relative ones, or resolve them from another directory.
func (p Machine) clientFile(places string) (path string) {
	for place := range strings.SplitSeq(places, " | ") {
		system, path, ok := strings.Cut(place, ":")
		if !ok {
			system, path = p.OS, place
		}
		start, rest, _ := strings.Cut(path, "/")
		if path = filepath.Join(p.baseDir(start), filepath.FromSlash(rest)); system == p.OS && filepath.IsAbs(path) {
			return path
		}
	}
	return filepath.Join(p.Home, "unknown") // unreachable: the last place of each client is in the home directory
}

// baseDir returns the directory that a variable at the start of a place stands for.
func (p Machine) baseDir(name string) string {
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
		name, dir = ".config", p.baseDir("$XDG_CONFIG_HOME")
	case name == "$CONFIG" && p.OS == "darwin": // directory for settings of applications
		name, dir = "Library/Application Support", ""
	case name == "$CONFIG" && p.OS == "windows":
		name, dir = "AppData/Roaming", p.baseDir("$APPDATA")
	case name == "$CONFIG":
		return p.baseDir("$XDG")
	default:
		return dir
	}
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(p.Home, filepath.FromSlash(name))
}

// lmStudio returns LM Studio's directory, as its findLMStudioHome does; "" is the default.
func (p Machine) lmStudio() string {
	name, err := os.ReadFile(filepath.Join(p.Home, ".lmstudio-home-pointer"))
	if dir := strings.TrimSpace(string(name)); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	if old := filepath.Join(p.Home, ".cache", "lm-studio"); exists(old) {
		return old
	}
	return ""
}
