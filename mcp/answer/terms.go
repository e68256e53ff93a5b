package answer

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// WordsOf returns the words of a tool for the parts of a remedy.
func WordsOf(tool string) func(remedy.Part) string {
	return func(p remedy.Part) string {
		switch limit, ok := limitParameters[p.Name]; {
		case ok && tool == "set_resource_limits":
			return limit
		case ok && (tool == "create_session" || p.Name != remedy.Timeout):
			return "resource_limits." + limit
		case p.Name == remedy.Packages:
			names, _ := json.Marshal(strings.Fields(p.Value)) // strings always marshal
			p.Value = string(names)
		}
		return strings.ReplaceAll(toolWords()[p.Name], "%s", p.Value)
	}
}

var limitParameters = map[remedy.Name]string{
	remedy.RAM: "max_ram_mb", remedy.Timeout: "timeout_seconds", remedy.CPU: "max_cpu_cores", remedy.Processes: "max_processes",
	remedy.Output: "max_output_bytes",
}

// toolWords are the words that all tools share. Agents never see directories of the host.
var toolWords = sync.OnceValue(func() map[remedy.Name]string {
	return map[remedy.Name]string{
		remedy.Timeout: "timeout", remedy.Disk: "limits.disk_mb in the operator's configuration",
		remedy.Raise: "have a person raise %s in the configuration",
		remedy.Input: "files", remedy.Bring: "files", remedy.Mount: "a mount", remedy.Workspace: "a workspace", remedy.Changes: "a change set",
		remedy.Artifacts: "artifacts",
		remedy.Env:       "env", remedy.SetEnv: `"env": {"NAME": "VALUE"}`, remedy.Secret: "secrets", remedy.Allow: "allowed_domains",
		remedy.Language: "language",
		remedy.Backend:  "backend %s", remedy.Profile: "profile %s in the operator's configuration",
		remedy.GPUs:     "containers.gpus: %s in the operator's configuration",
		remedy.Hardened: "have a person set the hardened profile in the configuration", remedy.Setting: "%s in the operator's configuration",
		remedy.Command: "%s (for a person to type)", remedy.AddAgain: "have a person add it again",
		remedy.OtherPage: "read another page, or have a person add the host to web.allow in the configuration",
		remedy.Run:       "execute_code", remedy.Exec: "execute_code", remedy.Stored: "get_artifacts", remedy.FetchPage: "fetch_webpage",
		remedy.CreateSession: "create_session", remedy.EndSession: "terminate_session", remedy.NoSession: "omit session_id",
		remedy.SetLimits:     "set_resource_limits",
		remedy.FindSession:   "create one with create_session, or omit session_id",
		remedy.OtherLanguage: "create a session of that language, or omit session_id",
		remedy.Inspect:       "inspect_state", remedy.Bridge: "bridge_data", remedy.FromKey: "from_key",
		remedy.Install: "install_package", remedy.InstallMissing: ": install it with install_package",
		remedy.Packages: "with packages %s", remedy.ForProgram: "and language %s",
		remedy.ForSession:       ", with session_id %s for this session only",
		remedy.AskEgress:        "ask a person for it with request_egress, or do without it",
		remedy.AskCommand:       "ask a person for it: request_host_access with kind command and pattern %s",
		remedy.AskDirectory:     "ask a person with request_host_access, kind %s, for its directory",
		remedy.AllowedDirectory: "use a path below an allowed directory, as listed by list_host_access",
		remedy.SeeLog:           pipeline.SeeServerLog,
		remedy.FreeLog:          pipeline.SeeServerLog,
		remedy.Replace:          "choose mode overwrite or append, or for a copy overwrite,",
	}
})
