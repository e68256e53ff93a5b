package setup

import (
	"os/exec"
	"path/filepath"
	"strings"
)

// Agent is a program that works on a project by itself, with what it needs in a sandbox. Lists are separated by spaces.
type Agent struct {
	Name, Title string
	Program     string // on PATH
	Hosts       string // of its model, and of what it does not start without
	SignIn      string // hosts of its own sign-in, besides
	Noise       string // hosts for telemetry and catalogues alone, which are refused without a question
	Keys        []AgentKey
	BaseURL     string            // variable with the URL of another model; "": none
	Flags       []string          // for work without questions: the sandbox asks. They also switch its own sandbox off, which can't be nested
	Env         []string          // switch updates and telemetry off, and its own sandbox
	Files       map[string]string // of a new home
	Settings    []string          // the person's files below the home directory that a new home may have: settings, and no credentials
	Login       []string          // arguments of its sign-in
	State       string            // directory of its conversations below its home
}

// AgentKey is a key of an agent's model: its variable, the host that gets it, and arguments by which the agent uses it.
type AgentKey struct {
	Variable, Host string
	Flags          []string
	As             string // the variable that the agent has instead; "" is Variable
}

// Keys of models that several agents use.
var (
	anthropicKey = AgentKey{Variable: "ANTHROPIC_API_KEY", Host: "api.anthropic.com"}
	openAIKey    = AgentKey{Variable: "OPENAI_API_KEY", Host: "api.openai.com"}
	geminiKey    = AgentKey{Variable: "GEMINI_API_KEY", Host: "generativelanguage.googleapis.com"}
)

// Agents returns all known agents.
//
// The first six were run in sandboxes against stand-ins of their models in November 2026: Claude Code 2.1.332, Codex 0.171,
// Gemini CLI 0.61, opencode 1.18.33, Copilot CLI 1.0.102 and Cline 3.0.65. The last two follow documentation.
//
//   - Claude Code asks for a theme, and whether to trust a directory, unless its .claude.json says so. It asks about each
//     new key in ANTHROPIC_API_KEY, and not about one that apiKeyHelper prints.
//   - Codex asks GitHub for plugins, unless they are off. It takes a key from a variable only for a provider of one's own; without one it retries WebSockets for some seconds.
//   - Gemini CLI takes a key from a variable, unless GOOGLE_GEMINI_BASE_URL has it use a gateway.
//   - opencode fetches its list of models when it starts, and goes on with a built-in one.
//   - Copilot CLI takes GitHub tokens, or the key of another provider with COPILOT_PROVIDER_BASE_URL.
func Agents() []Agent {
	return []Agent{
		{Name: "claude", Title: "Claude Code", Program: "claude", State: ".claude", BaseURL: "ANTHROPIC_BASE_URL",
			Hosts: "api.anthropic.com", SignIn: "claude.ai claude.com platform.claude.com console.anthropic.com",
			Noise: "statsig.anthropic.com downloads.claude.ai http-intake.logs.us5.datadoghq.com mcp-proxy.anthropic.com",
			Keys: []AgentKey{{"ANTHROPIC_API_KEY", "api.anthropic.com", []string{"--settings", `{"apiKeyHelper":"printenv AGENT_KEY"}`},
				"AGENT_KEY"}}, Login: []string{"/login"},
			Flags: []string{"--dangerously-skip-permissions"},
			Env: strings.Fields("DISABLE_AUTOUPDATER=1 DISABLE_UPDATES=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 " +
				"DISABLE_ERROR_REPORTING=1 IS_SANDBOX=1"),
			Files: map[string]string{
				".claude.json":          `{"hasCompletedOnboarding":true,"projects":{"/workspace":{"hasTrustDialogAccepted":true,"hasCompletedProjectOnboarding":true}}}`,
				".claude/settings.json": `{"sandbox":{"enabled":false},"skipDangerousModePermissionPrompt":true}`,
			},
			Settings: strings.Fields(".claude/CLAUDE.md .claude/commands .claude/agents .claude/skills .claude/output-styles")},
		{Name: "codex", Title: "Codex", Program: "codex", State: ".codex",
			Hosts: "api.openai.com chatgpt.com auth.openai.com", Noise: "ab.chatgpt.com",
			Keys: []AgentKey{{"OPENAI_API_KEY", "api.openai.com", []string{"-c", `model_provider="key"`,
				"-c", `model_providers.key={name="OpenAI",base_url="https://api.openai.com/v1",env_key="OPENAI_API_KEY",wire_api="responses"}`}, ""}},
			Login: []string{"login", "--device-auth"},
			Flags: []string{"--dangerously-bypass-approvals-and-sandbox", "-c", "check_for_update_on_startup=false", "-c",
				"analytics.enabled=false", "--disable", "plugins"},
			Files:    map[string]string{".codex/config.toml": "[projects.\"/workspace\"]\ntrust_level = \"trusted\"\n"},
			Settings: strings.Fields(".codex/AGENTS.md .codex/prompts .codex/skills")},
		{Name: "gemini", Title: "Gemini CLI", Program: "gemini", State: ".gemini",
			Hosts:  "generativelanguage.googleapis.com cloudcode-pa.googleapis.com oauth2.googleapis.com",
			SignIn: "accounts.google.com www.googleapis.com",
			Noise:  "play.googleapis.com", Keys: []AgentKey{geminiKey}, BaseURL: "GOOGLE_GEMINI_BASE_URL",
			Flags: []string{"--yolo", "--skip-trust"}, Env: []string{"GEMINI_SANDBOX=false", "NO_BROWSER=true"},
			Files: map[string]string{".gemini/settings.json": `{"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},` +
				`"privacy":{"usageStatisticsEnabled":false},"tools":{"sandbox":false}}`},
			Settings: strings.Fields(".gemini/GEMINI.md .gemini/commands")},
		{Name: "opencode", Title: "opencode", Program: "opencode", State: ".local/share/opencode",
			Hosts: "opencode.ai", Noise: "models.opencode.ai models.dev",
			Keys:  []AgentKey{{Variable: "OPENCODE_API_KEY", Host: "opencode.ai"}, anthropicKey, openAIKey, geminiKey},
			Login: []string{"auth", "login"}, SignIn: "console.anthropic.com claude.ai auth.openai.com github.com",
			Env: []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_SHARE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				`OPENCODE_PERMISSION={"edit":"allow","bash":"allow","webfetch":"allow","external_directory":"allow","doom_loop":"allow"}`},
			Settings: strings.Fields(".config/opencode/AGENTS.md .config/opencode/command .config/opencode/agent")},
		{Name: "copilot", Title: "GitHub Copilot CLI", Program: "copilot", State: ".copilot", BaseURL: "COPILOT_PROVIDER_BASE_URL",
			Hosts: "api.github.com github.com *.githubcopilot.com", Noise: "copilot-telemetry.githubusercontent.com",
			Keys: []AgentKey{{Variable: "COPILOT_GITHUB_TOKEN", Host: "api.github.com --host *.githubcopilot.com"},
				{Variable: "COPILOT_PROVIDER_API_KEY", Host: "HOST"}},
			Login: []string{"login"}, Flags: []string{"--yolo", "--no-auto-update"},
			Env: strings.Fields("COPILOT_AUTO_UPDATE=false COPILOT_ALLOW_ALL=true")},
		{Name: "cline", Title: "Cline", Program: "cline", State: ".cline",
			Hosts: "api.cline.bot", SignIn: "app.cline.bot auth.cline.bot", Noise: "otel.cline.bot data.cline.bot",
			Keys: []AgentKey{{Variable: "CLINE_API_KEY", Host: "api.cline.bot"}, {"ANTHROPIC_API_KEY", "api.anthropic.com",
				[]string{"--provider", "anthropic"}, ""},
				{"OPENAI_API_KEY", "api.openai.com", []string{"--provider", "openai-native"}, ""},
				{"GEMINI_API_KEY", "generativelanguage.googleapis.com", []string{"--provider", "gemini"}, ""}},
			Login: []string{"auth"}, Env: []string{"CLINE_NO_AUTO_UPDATE=1"}},
		{Name: "aider", Title: "aider", Program: "aider", State: ".aider", BaseURL: "OPENAI_API_BASE",
			Noise: "us.i.posthog.com", Keys: []AgentKey{anthropicKey, openAIKey, geminiKey},
			Flags: []string{"--yes-always"}, Env: strings.Fields("AIDER_CHECK_UPDATE=false AIDER_ANALYTICS_DISABLE=true " +
				"AIDER_SHOW_RELEASE_NOTES=false")},
		{Name: "goose", Title: "Goose", Program: "goose", State: ".local/share/goose",
			Noise: "us.i.posthog.com", Keys: []AgentKey{anthropicKey, openAIKey,
				{Variable: "GOOGLE_API_KEY", Host: "generativelanguage.googleapis.com"}},
			Env: strings.Fields("GOOSE_MODE=auto GOOSE_DISABLE_KEYRING=1 GOOSE_TELEMETRY_ENABLED=false"), Login: []string{"configure"},
			Settings: strings.Fields(".config/goose/config.yaml .config/goose/.goosehints")},
	}
}

// Installed returns the path of the agent's program with links followed, or "" if it is not on PATH.
func (a Agent) Installed() string {
	path, err := exec.LookPath(a.Program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return path
}
