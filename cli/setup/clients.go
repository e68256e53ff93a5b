package setup

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Client is a program that starts MCP servers.
type Client struct {
	Name, Title string
	Project     string // of its file in a project's folder, with slashes; "" has none
	toml        bool
	container   []string // where its servers are
	kind        kind
	user        func(p Place) string
	traces      []string // folders below the home folder that show that it is installed, beside that of its file
}

// kind is how an entry is written.
type kind int

const (
	plain    kind = iota // command, args
	typed                // with "type": "stdio"
	opencode             // "type": "local", and one list
	withEnv              // plain, with an environment
)

// Place is a machine, as its paths go.
type Place struct {
	OS   string // as runtime.GOOS has it
	Home string // "" is unknown
	Env  func(string) string
}

// Clients returns all that are known.
func Clients() []Client {
	return []Client{
		{Name: "claude-desktop", Title: "Claude Desktop", container: []string{"mcpServers"},
			user: func(p Place) string { return p.join(p.config(), "Claude", "claude_desktop_config.json") }},
		{Name: "claude-code", Title: "Claude Code", container: []string{"mcpServers"}, kind: typed, Project: ".mcp.json",
			user: func(p Place) string { return p.join(p.or("CLAUDE_CONFIG_DIR", p.Home), ".claude.json") }, traces: []string{".claude"}},
		{Name: "cursor", Title: "Cursor", container: []string{"mcpServers"}, Project: ".cursor/mcp.json",
			user: func(p Place) string { return p.join(p.Home, ".cursor", "mcp.json") }},
		{Name: "vscode", Title: "VS Code", container: []string{"servers"}, kind: typed, Project: ".vscode/mcp.json",
			user: func(p Place) string { return p.join(p.config(), "Code", "User", "mcp.json") }},
		{Name: "codex", Title: "Codex", toml: true, Project: ".codex/config.toml",
			user: func(p Place) string { return p.join(p.or("CODEX_HOME", p.join(p.Home, ".codex")), "config.toml") }},
		{Name: "gemini", Title: "Gemini CLI", container: []string{"mcpServers"}, Project: ".gemini/settings.json",
			user: func(p Place) string { return p.join(p.Home, ".gemini", "settings.json") }},
		{Name: "opencode", Title: "opencode", container: []string{"mcp"}, kind: opencode, Project: "opencode.json",
			user: func(p Place) string { return p.join(p.xdg(), "opencode", "opencode.json") }},
		{Name: "zed", Title: "Zed", container: []string{"context_servers"}, kind: withEnv, Project: ".zed/settings.json",
			user: Place.zed},
	}
}

// Find returns the client of this name.
func Find(name string) (Client, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// UserFile returns the path of the client's file for all projects of a user.
func (c Client) UserFile(p Place) (string, error) {
	if p.Home == "" {
		return "", errors.New("the home folder is not known")
	}
	return c.variant(c.user(p)), nil
}

// ProjectFile returns the path of the client's file in a project's folder.
func (c Client) ProjectFile(dir string) (string, error) {
	if c.Project == "" {
		return "", errors.New(c.Title + " has no configuration of projects")
	}
	return c.variant(filepath.Join(dir, filepath.FromSlash(c.Project))), nil
}

// Files returns what clients obey here, for whoever lets others write files: the folders, or files, of a user, by their
// absolute paths, and the files of a project by their names.
func Files(p Place) (all []string) {
	if p.Home == "" {
		return nil
	}
	all = append(all, filepath.Clean(p.xdg()))
	for _, c := range Clients() {
		file := c.user(p)
		if dir := filepath.Dir(file); dir != filepath.Clean(p.Home) {
			file = dir // it has hooks, commands and the like, too
		}
		all = append(all, file)
		if c.Project != "" {
			all = append(all, c.Project, c.Project+"c") // as variant knows
		}
	}
	return all
}

// variant is the other name that a file may have, where that is the one that exists.
func (c Client) variant(name string) string {
	if other := name + "c"; c.kind == opencode && !exists(name) && exists(other) {
		return other
	}
	return name
}

// Installed says whether there is a sign of the client.
func (c Client) Installed(p Place) bool {
	file, err := c.UserFile(p)
	if err != nil {
		return false
	}
	dir := filepath.Dir(file)
	if c.Name == "vscode" {
		dir = filepath.Dir(dir)
	}
	if exists(file) || dir != filepath.Clean(p.Home) && exists(dir) {
		return true
	}
	return slices.ContainsFunc(c.traces, func(t string) bool { return exists(filepath.Join(p.Home, t)) })
}

// Shown returns where the client's file is on a system, for people to read: with ~ for the home folder.
func (c Client) Shown(system string) string {
	p := Place{OS: system, Home: "~", Env: func(name string) string {
		if system == "windows" && name == "APPDATA" {
			return "%APPDATA%"
		}
		return ""
	}}
	name := c.user(p)
	if system == "windows" {
		name = strings.ReplaceAll(name, "/", `\`)
	}
	return name
}

// config is where programs with a window keep their settings.
func (p Place) config() string {
	switch p.OS {
	case "darwin":
		return p.join(p.Home, "Library", "Application Support")
	case "windows":
		return p.or("APPDATA", p.join(p.Home, "AppData", "Roaming"))
	}
	return p.xdg()
}

func (p Place) xdg() string { return p.or("XDG_CONFIG_HOME", p.join(p.Home, ".config")) }

func (p Place) zed() string {
	if p.OS == "windows" {
		return p.join(p.config(), "Zed", "settings.json")
	}
	if p.OS == "darwin" { // which does not look at XDG_CONFIG_HOME there
		return p.join(p.Home, ".config", "zed", "settings.json")
	}
	return p.join(p.xdg(), "zed", "settings.json")
}

// or is what a variable says, or else another folder.
func (p Place) or(name, other string) string {
	if p.Env != nil {
		if dir := p.Env(name); dir != "" {
			return dir
		}
	}
	return other
}

// join goes by the system that we run on only where that is meant: others are shown, not used.
func (p Place) join(parts ...string) string {
	if p.Home == "~" {
		return path.Join(parts...)
	}
	return filepath.Join(parts...)
}
