package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/web"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

func (t tool) annotations() mcp.ToolAnnotation {
	on := func(h operation.Hints) *bool { b := t.Hints&h != 0; return &b }
	return mcp.ToolAnnotation{ReadOnlyHint: on(operation.Reads), DestructiveHint: on(operation.Destroys),
		IdempotentHint: on(operation.Repeats), OpenWorldHint: on(operation.ReachesOut)}
}

// policyOff is the reason why a group of tools is refused, with the setting that turns it on.
type policyOff struct{ reason, setting, instead string }

var (
	webOff  = policyOff{"web tools are off", "web.enabled: true", "programs reach hosts in allowed_domains of execute_code"}
	hostOff = policyOff{"host access is off", "host.enabled: true", "pass files to a sandbox with files of execute_code"}
)

// whyOff returns why a tool refuses every call, or nil. It never changes: the server reads its configuration at the
// start.
func (s *Server) whyOff(name string) *policyOff {
	p := s.cfg.Pipeline
	switch {
	case name == "request_host_access" && p != nil && workspace.HasNamed(p): // for kind changes
	case strings.HasPrefix(name, "host_"), strings.HasSuffix(name, "_host_access"):
		if p == nil || !host.Enabled(p) {
			return &hostOff
		}
	case name == "web_search", name == "fetch_webpage", name == "browser_fetch":
		if p == nil || !web.IsEnabled(p) {
			return &webOff
		}
	}
	return nil
}

// shortEntry returns the entry of a tool that is turned off. It is short, since models read it in each conversation.
func (w policyOff) shortEntry(t tool) mcp.Tool {
	return mcp.Tool{
		Name: t.Name, Title: t.Title, Description: "Off until a person sets " + w.setting + " in the configuration. " + t.Title + ".",
		RawInputSchema: t.In.Brief(), Annotations: t.annotations(),
	}
}

// unlessOff returns run, or a handler that refuses each call of a tool that policy has turned off, and records the
// argument named by what.
func unlessOff[A any](s *Server, tool, what string, run handler[A]) handler[A] {
	why := s.whyOff(tool)
	if why == nil {
		return run
	}
	in := operation.FormOf[A]()
	return func(ctx context.Context, c *call, a *A) (*answer.Answer, error) {
		_, _, err := pipeline.Do(ctx, s.cfg.Pipeline, pipeline.Denial{Tool: tool, Namespace: c.namespace, What: cmp.Or(in.Text(a, what), tool),
			Reason: why.reason, Remedy: pipeline.Remedy{"a person has to set " + why.setting + " in the configuration; " + why.instead}})
		return nil, err
	}
}

// tool returns the tool with that name, or nil.
func (s *Server) tool(name string) *tool {
	i := slices.IndexFunc(s.has, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.has[i]
}

// otherTools are names of other systems' tools that do the same, by our names.
var otherTools = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for words, ours := range map[string][]string{
		"run run_code exec_code run_python run_python_code run_javascript execute exec execute_python execute_python_code execute_javascript code code_interpreter code_execution " +
			"python python3 python_repl ipython jupyter notebook node javascript typescript bash bash_code_execution shell sh terminal command " +
			"run_command execute_command run_shell_command run_terminal_cmd shell_exec execute_shell eval": {"execute_code"},
		"install pip pip_install npm npm_install add_package install_packages install_dependencies":                       {"install_package"},
		"lint check check_code validate analyze_code":                                                                     {"validate_code"},
		"start_session new_session open_session create_sandbox sandbox_create start_sandbox":                              {"create_session"},
		"stop_session close_session end_session delete_session kill_session stop_sandbox delete_sandbox kill cancel stop": {"terminate_session"},
		"set_variable put transfer_data share_data":                                                                       {"bridge_data"},
		"list_languages languages runtimes get_runtimes list_packages list_environments":                                  {"list_runtimes"},
		"set_limits resource_limits":        {"set_resource_limits"},
		"stats status health server_status": {"sandbox_stats"},
		"list_sessions get_session session_info get_status job_status task_status poll list_variables": {"inspect_state"},
		"read_file view_file open_file get_file cat read": {"get_artifacts",
			"host_file_read"},
		"download download_file get_output get_result list_artifacts": {"get_artifacts"},
		"write_file create_file save_file upload_file upload edit_file write": {"execute_code",
			"host_file_write"},
		"list_files ls list_directory list_dir": {"inspect_state", "host_file_list"},
		"copy_file":                             {"host_file_copy"},
		"allow_domain request_network request_access network_access":                                           {"request_egress"},
		"audit audit_log logs history":                                                                         {"audit_execution"},
		"search google google_web_search websearch internet_search":                                            {"web_search"},
		"fetch web_fetch webfetch fetch_url fetch_page http_get curl browse open_url read_url get_page":        {"fetch_webpage"},
		"browser screenshot browser_navigate navigate playwright puppeteer browser_open render_page open_page": {"browser_fetch"},
	} {
		for _, word := range strings.Fields(words) {
			all[word] = ours
		}
	}
	return all
})

// whyNoTool returns the error about an unknown tool, with the tools that were probably meant; "" if the tool exists.
func (s *Server) whyNoTool(asked string) string {
	if s.tool(asked) != nil {
		return ""
	}
	var names []string
	for _, t := range s.has {
		names = append(names, t.Name)
	}
	plain := strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(strings.ToLower(safetext.Clip(asked, 64)))
	meant := otherTools()[plain]
	if meant == nil {
		if i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(plain, name) }); i >= 0 { // after a client's own prefix
			meant = names[i : i+1]
		} else if near := spelling.Nearest(plain, names); near != "" {
			meant = []string{near}
		}
	}
	text := fmt.Sprintf("unknown tool %q", safetext.Clip(asked, 80))
	if meant == nil {
		return text + ": the tools are " + strings.Join(names, ", ")
	}
	return fmt.Sprintf(`%s: did you mean "%s"?`, text, strings.Join(meant, `" or "`))
}
