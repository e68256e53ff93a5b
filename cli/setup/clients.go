package setup

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Client is a program that starts MCP servers.
type Client struct {
	Name, Title string
	Project     string // of its file in a project's directory, with slashes; "" has none
	Note        string // further conditions for starting the server; "" is none
	form        form
	container   []string // keys that lead to its servers
	kind        kind
	user        func(p Place) string
	traces      []string // directories below the home directory that show that it is installed, beside that of its file
}

// form is a format of files.
type form int

const (
	inJSON form = iota // with comments, maybe
	inTOML
	inYAML
)

// kind is a format of entries.
type kind int

const (
	plain    kind = iota // command, args
	typed                // with "type": "stdio"
	opencode             // "type": "local", and one list
	withEnv              // plain, with an environment
	listing              // typed, with the tools that may be used
	patient              // plain, with a time limit for a tool
)

// Place is a machine, as its paths go.
type Place struct {
	OS   string              // as runtime.GOOS has it
	Home string              // "" is unknown
	Env  func(string) string // as os.Getenv; nil is an empty environment
}

// Clients returns all known clients.
//
// The last five, and the notes on trust, follow documentation and sources of 2026:
//
//   - Gemini CLI 0.56 (source, August): security.folderTrust.enabled is true unless set, and in a directory that is not trusted it
//     connects to no server at all, also of the user's settings. Without a terminal it ends with an error there.
//   - Windsurf (documentation, October): one file for the user. Since June it is called Devin Desktop, and the file is the same.
//   - Cline 4.1, and its command-line program 3.0 (source, August): one file for both, moved by CLINE_MCP_SETTINGS_PATH,
//     CLINE_DATA_DIR and CLINE_DIR, in that order. A tool has a minute unless "timeout" gives seconds. Cline 3 had its file in
//     VS Code's directory, from where 4 takes what is not in the new one.
//   - GitHub Copilot CLI 1.0 (documentation and issues, October): COPILOT_HOME is its directory; XDG_CONFIG_HOME counted until 0.0.421.
//     "tools" is what may be used. Of a project it reads .mcp.json, too, where Claude Code has its servers, but no server of a
//     directory that is not trusted, and none for copilot -p.
//   - Goose 1 (documentation and source, October): YAML; etcetera's places, which are XDG's on macOS, too. A relative
//     GOOSE_PATH_ROOT or XDG_CONFIG_HOME is not obeyed.
//   - LM Studio 0.4 (documentation; lmstudio.js for the directory): as Cursor has it.
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
		{Name: "codex", Title: "Codex", form: inTOML, Project: ".codex/config.toml",
			user: func(p Place) string { return p.join(p.or("CODEX_HOME", p.join(p.Home, ".codex")), "config.toml") }},
		{Name: "gemini", Title: "Gemini CLI", container: []string{"mcpServers"}, Project: ".gemini/settings.json",
			Note: "Gemini CLI starts no servers in a directory that it does not trust, these of the user included: it asks when it is started there, " +
				"and /permissions changes the answer; without a terminal, --skip-trust or GEMINI_TRUST_WORKSPACE=true trusts it",
			user: func(p Place) string { return p.join(p.Home, ".gemini", "settings.json") }},
		{Name: "opencode", Title: "opencode", container: []string{"mcp"}, kind: opencode, Project: "opencode.json",
			user: func(p Place) string { return p.join(p.xdg(), "opencode", "opencode.json") }},
		{Name: "zed", Title: "Zed", container: []string{"context_servers"}, kind: withEnv, Project: ".zed/settings.json",
			user: Place.zed},
		{Name: "windsurf", Title: "Windsurf", container: []string{"mcpServers"},
			user: func(p Place) string { return p.join(p.Home, ".codeium", "windsurf", "mcp_config.json") }},
		{Name: "cline", Title: "Cline", container: []string{"mcpServers"}, kind: patient,
			user: Place.cline, traces: []string{".cline"}},
		{Name: "copilot", Title: "GitHub Copilot CLI", container: []string{"mcpServers"}, kind: listing, Project: ".github/mcp.json",
			Note: "Copilot CLI starts a project's servers only in a directory that it trusts, and for copilot -p only with GITHUB_COPILOT_PROMPT_MODE_WORKSPACE_MCP=true",
			user: func(p Place) string {
				return p.join(p.or("COPILOT_HOME", p.join(p.Home, ".copilot")), "mcp-config.json")
			}},
		{Name: "goose", Title: "Goose", form: inYAML, user: Place.goose},
		{Name: "lmstudio", Title: "LM Studio", container: []string{"mcpServers"},
			user: func(p Place) string { return p.join(p.lmstudio(), "mcp.json") }},
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
		return "", errors.New("the home directory is not known")
	}
	return c.variant(c.user(p)), nil
}

// ProjectFile returns the path of the client's file in a project's directory.
func (c Client) ProjectFile(dir string) (string, error) {
	if c.Project == "" {
		return "", errors.New(c.Title + " has no configuration of projects")
	}
	return c.variant(filepath.Join(dir, filepath.FromSlash(c.Project))), nil
}

// Files returns the files that clients obey, for callers that let others write files: the directories, or files, of a user, by
// their absolute paths, and the files of a project by their names. It is nil if the home directory is not known.
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
		for _, t := range c.traces {
			all = append(all, filepath.Join(p.Home, t))
		}
		if c.Project != "" {
			all = append(all, c.Project, c.Project+"c") // as variant knows
		}
	}
	return all
}

// variant returns the other name that opencode's file may have, with .jsonc, if only that exists, and else name.
func (c Client) variant(name string) string {
	if other := name + "c"; c.kind == opencode && !exists(name) && exists(other) {
		return other
	}
	return name
}

// Installed reports whether the client's file, its directory, or one of its traces exists.
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

// PathOn returns where the client's file is on a system, for people to read: with ~ for the home directory.
func (c Client) PathOn(system string) string {
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

// config returns the directory in which programs with a window keep their settings.
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

// zed returns the path of Zed's settings.
func (p Place) zed() string {
	if p.OS == "windows" {
		return p.join(p.config(), "Zed", "settings.json")
	}
	if p.OS == "darwin" { // which does not look at XDG_CONFIG_HOME there
		return p.join(p.Home, ".config", "zed", "settings.json")
	}
	return p.join(p.xdg(), "zed", "settings.json")
}

// cline returns the path of Cline's file, which three variables move: see Clients.
func (p Place) cline() string {
	dir := p.or("CLINE_DATA_DIR", p.join(p.or("CLINE_DIR", p.join(p.Home, ".cline")), "data"))
	return p.or("CLINE_MCP_SETTINGS_PATH", p.join(dir, "settings", "cline_mcp_settings.json"))
}

// goose returns the path of Goose's file. Variables with relative paths do not count: see Clients.
func (p Place) goose() string {
	if root := p.or("GOOSE_PATH_ROOT", ""); filepath.IsAbs(root) {
		return p.join(root, "config", "config.yaml")
	}
	if p.OS == "windows" {
		return p.join(p.config(), "Block", "goose", "config", "config.yaml")
	}
	if dir := p.xdg(); filepath.IsAbs(dir) {
		return p.join(dir, "goose", "config.yaml")
	}
	return p.join(p.Home, ".config", "goose", "config.yaml")
}

// lmstudio returns LM Studio's directory, found as its findLMStudioHome does; for display, the default.
func (p Place) lmstudio() string {
	if p.Home != "~" {
		if name, err := os.ReadFile(filepath.Join(p.Home, ".lmstudio-home-pointer")); err == nil && filepath.IsAbs(strings.TrimSpace(string(name))) {
			return filepath.Clean(strings.TrimSpace(string(name)))
		}
		if old := filepath.Join(p.Home, ".cache", "lm-studio"); exists(old) {
			return old
		}
	}
	return p.join(p.Home, ".lmstudio")
}

// or returns the value of an environment variable, or other if it is empty.
func (p Place) or(name, other string) string {
	if p.Env != nil {
		if dir := p.Env(name); dir != "" {
			return dir
		}
	}
	return other
}

// join joins the parts of a path with the separators of this system; for display, with Home "~", with slashes.
func (p Place) join(parts ...string) string {
	if p.Home == "~" {
		return path.Join(parts...)
	}
	return filepath.Join(parts...)
}
