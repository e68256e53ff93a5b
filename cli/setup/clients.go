package setup

import (
	_ "embed"
	"errors"
	"path/filepath"
	"slices"
)

// Client is a program that starts MCP servers.
type Client struct {
	Name, Title string
	Project     string // path in a project's directory, with slashes; "": none
	Note        string // further conditions for starting the server; "": none
	servers     string // key of its servers
	like        entry  // fields of an entry in addition to command and arguments
	oneList     bool   // command and arguments are one list
	snippet     string // entry of a file that is not JSON: inTOML or inYAML
	user        string // places of its file; the first that this machine has counts: see Machine.clientFile
	trace       string // directory below the home directory that, like the directory of its file, indicates an installation

	// The client's own commands, by which setup changes its file; "" edits the file. Method fill replaces the words in
	// capitals.
	add, remove, get string
}

// Entries for files that setup does not edit. Goose displays the description.
var (
	//go:embed codex.toml
	inTOML string
	//go:embed goose.yaml
	inYAML string
)

// toolSeconds is the time limit that entries set for a tool, in seconds. The default of Codex and Cline, a minute, is
// less than a person may need to answer a question.
const toolSeconds = 300

// Clients returns all known clients.
//
// The last five, and the notes on trust, follow documentation and sources of 2026:
//
//   - Gemini CLI 0.56 (source, August): security.folderTrust.enabled is true unless set. In an untrusted directory it
//     connects to no server, including those of the user's settings; without a terminal it exits with an error there.
//   - Windsurf (documentation, October): one file for the user. Since June it is called Devin Desktop, with the same
//     file.
//   - Cline 4.1, and its command-line program 3.0 (source, August): one file for both, moved by CLINE_MCP_SETTINGS_PATH,
//     CLINE_DATA_DIR and CLINE_DIR, in that order. A tool has a minute unless "timeout" gives seconds. Cline 3 had its
//     file in VS Code's directory, from which 4 imports entries that the new one lacks.
//   - GitHub Copilot CLI 1.0 (documentation and issues, October): COPILOT_HOME is its directory; XDG_CONFIG_HOME counted
//     until 0.0.421. "tools" lists the tools that may be used. In a project it also reads .mcp.json, where Claude Code
//     has its servers, but no server of an untrusted directory, and none for copilot -p.
//   - Goose 1 (documentation and source, October): YAML; directories of the etcetera library, which are XDG's on macOS,
//     too. It ignores a relative GOOSE_PATH_ROOT or XDG_CONFIG_HOME.
//   - LM Studio 0.4 (documentation; lmstudio.js for the directory): the same format as Cursor.
//
// The commands of Claude Code 2.1, Codex 0.171 and Gemini CLI 0.61 were tried in November 2026. Claude Code rewrites
// its file all the time. In an untrusted project, Gemini CLI finds no entry to remove and exits with status 0. Copilot
// CLI 1.0.102 has commands, too, but they know no projects and replace a link by a file.
func Clients() []Client {
	return []Client{
		{Name: "claude-desktop", Title: "Claude Desktop", servers: "mcpServers", user: "$CONFIG/Claude/claude_desktop_config.json"},
		{Name: "claude-code", Title: "Claude Code", servers: "mcpServers", like: entry{Type: "stdio"}, Project: ".mcp.json",
			user: "$CLAUDE_CONFIG_DIR/.claude.json | ~/.claude.json", trace: ".claude",
			add: "claude mcp add --scope SCOPE NAME -- COMMAND ARGS", remove: "claude mcp remove --scope SCOPE NAME"},
		{Name: "cursor", Title: "Cursor", servers: "mcpServers", Project: ".cursor/mcp.json", user: "~/.cursor/mcp.json"},
		{Name: "vscode", Title: "VS Code", servers: "servers", like: entry{Type: "stdio"}, Project: ".vscode/mcp.json",
			user: "$CONFIG/Code/User/mcp.json"},
		{Name: "codex", Title: "Codex", snippet: inTOML, servers: "mcp_servers", Project: ".codex/config.toml",
			Note: "Codex gives a tool a minute, which may be less than a person takes to answer a question: tool_timeout_sec = 300 in the " +
				"server's table gives more",
			user: "$CODEX_HOME/config.toml | ~/.codex/config.toml",
			add:  "codex mcp add NAME -- COMMAND ARGS", remove: "codex mcp remove NAME", get: "codex mcp get NAME --json"},
		{Name: "gemini", Title: "Gemini CLI", servers: "mcpServers", Project: ".gemini/settings.json", user: "~/.gemini/settings.json",
			Note: "Gemini CLI starts no servers in a directory that it does not trust, these of the user included: it asks when it is " +
				"started there, " +
				"and /permissions changes the answer; without a terminal, --skip-trust or GEMINI_TRUST_WORKSPACE=true trusts it",
			add: "gemini mcp add --scope SCOPE NAME COMMAND -- ARGS", remove: "gemini mcp remove --scope SCOPE NAME"},
		{Name: "opencode", Title: "opencode", servers: "mcp", like: entry{Type: "local"}, oneList: true, Project: "opencode.json",
			user: "$XDG/opencode/opencode.json"},
		{Name: "zed", Title: "Zed", servers: "context_servers", like: entry{Env: &struct{}{}}, Project: ".zed/settings.json",
			user: "windows:$CONFIG/Zed/settings.json | darwin:~/.config/zed/settings.json | $XDG/zed/settings.json"},
		{Name: "windsurf", Title: "Windsurf", servers: "mcpServers", user: "~/.codeium/windsurf/mcp_config.json"},
		{Name: "cline", Title: "Cline", servers: "mcpServers", like: entry{Timeout: toolSeconds}, trace: ".cline",
			user: "$CLINE_MCP_SETTINGS_PATH | $CLINE_DATA_DIR/settings/cline_mcp_settings.json | " +
				"$CLINE_DIR/data/settings/cline_mcp_settings.json | " +
				"~/.cline/data/settings/cline_mcp_settings.json"},
		{Name: "copilot", Title: "GitHub Copilot CLI", servers: "mcpServers", like: entry{Type: "stdio", Tools: []string{"*"}},
			Project: ".github/mcp.json",
			Note: "Copilot CLI starts a project's servers only in a directory that it trusts, and for copilot -p only with " +
				"GITHUB_COPILOT_PROMPT_MODE_WORKSPACE_MCP=true",
			user: "$COPILOT_HOME/mcp-config.json | ~/.copilot/mcp-config.json"},
		{Name: "goose", Title: "Goose", snippet: inYAML, servers: "extensions",
			user: "$GOOSE_PATH_ROOT/config/config.yaml | windows:$CONFIG/Block/goose/config/config.yaml | $XDG/goose/config.yaml"},
		{Name: "lmstudio", Title: "LM Studio", servers: "mcpServers", user: "$LM_STUDIO/mcp.json | ~/.lmstudio/mcp.json"},
	}
}

func clientNames() (all []string) {
	for _, c := range Clients() {
		all = append(all, c.Name)
	}
	return all
}

// FindClient returns the client of this name.
func FindClient(name string) (c Client, ok bool) {
	all := Clients()
	if i := slices.Index(clientNames(), name); i >= 0 {
		return all[i], true
	}
	return c, false
}

// UserFile returns the path of the client's file for all projects of a user.
func (c Client) UserFile(p Machine) (string, error) {
	if p.Home == "" {
		return "", errors.New("the home directory is unknown")
	}
	return c.variant(p.clientFile(c.user)), nil
}

// ProjectFile returns the path of the client's file in a project's directory.
func (c Client) ProjectFile(dir string) (string, error) {
	if c.Project == "" {
		return "", errors.New(c.Title + " has no project configuration")
	}
	return c.variant(filepath.Join(dir, filepath.FromSlash(c.Project))), nil
}

// variant returns the alternative name of opencode's file, with .jsonc, if only that exists, and else name.
func (c Client) variant(name string) string {
	if other := name + "c"; c.oneList && !exists(name) && exists(other) {
		return other
	}
	return name
}

// Files returns the files that clients obey, for callers that let others write files: absolute paths of a user's
// directories or files, and names of a project's files. It returns nil if the home directory is unknown.
func Files(p Machine) (all []string) {
	if p.Home == "" {
		return nil
	}
	all = append(all, p.clientFile("$XDG"))
	for _, c := range Clients() {
		file := p.clientFile(c.user)
		if dir := filepath.Dir(file); dir != filepath.Clean(p.Home) {
			file = dir // it contains hooks, commands and the like, too
		}
		all = append(all, file)
		if c.trace != "" {
			all = append(all, filepath.Join(p.Home, c.trace))
		}
		if c.Project != "" {
			all = append(all, c.Project, c.Project+"c") // see variant
		}
	}
	return all
}

// Installed reports whether the client's file, its directory, or its trace exists.
func (c Client) Installed(p Machine) bool {
	file, err := c.UserFile(p)
	if err != nil {
		return false
	}
	dir := filepath.Dir(file)
	if c.Name == "vscode" {
		dir = filepath.Dir(dir)
	}
	return exists(file) || dir != filepath.Clean(p.Home) && exists(dir) || c.trace != "" && exists(filepath.Join(p.Home, c.trace))
}
