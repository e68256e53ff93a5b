package mcp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Terms are what tools call what the command line has flags for: see pipeline.Config.
func Terms() map[string]string {
	return map[string]string{
		"--timeout":                    "timeout",
		"--ram":                        "resource_limits.max_ram_mb",
		"--cpu":                        "resource_limits.max_cpu_cores",
		"--processes":                  "resource_limits.max_processes",
		"--output":                     "resource_limits.max_output_bytes",
		"--disk":                       "limits.disk_mb in the operator's configuration",
		"--input":                      "files",
		"--allow":                      "allowed_domains",
		"sandboxmcp host access allow": "ask a person with request_host_access",
		// How an agent sees what is allowed on the host, and has a person asked for more.
		"sandboxmcp host access list": "list_host_access",
		`add "PATTERN" to host.allowed in the configuration, or type this at a terminal, where you are asked`: "ask a person for it: request_host_access with kind command and pattern PATTERN",
		"install": ": install it with install_package",
		"sandboxmcp install PACKAGES --language LANGUAGE": "install_package with packages [PACKAGES] and language LANGUAGE",
		// What an agent can do about it is to ask.
		"have it added to egress.allow in the configuration": "ask a person for it with request_egress, or do without it",
	}
}

// forTools says in arguments of tools what is in flags of the command line even so.
func forTools(text string) string { return flagNames.Replace(text) }

var flagNames = strings.NewReplacer("--env NAME=VALUE", `"env": {"NAME": "VALUE"}`, "--secret", "secrets", "--env", "env",
	"--input", "files", "--disk", "limits.disk_mb in the operator's configuration")

// inParameters makes the remedy for a limit above the operator's cap in the parameters of a tool.
func inParameters(err error, tool string) error {
	var e *pipeline.Error
	if !errors.As(err, &e) || e.Over == nil {
		return err
	}
	own, name := *e, limitParameters[e.Over.Limit]
	switch {
	case e.Over.Limit == "disk": // which no tool sets
		name = Terms()["--disk"]
	case tool == "set_resource_limits":
	case tool == "create_session" || e.Over.Limit != "timeout":
		name = "resource_limits." + name
	default:
		name = "timeout"
	}
	own.Remedy = fmt.Sprintf("ask for at most %s %s, or have a person raise %s in the configuration", name, e.Over.Cap, e.Over.Setting)
	own.Over = nil
	return &own
}

var limitParameters = map[string]string{
	"ram": "max_ram_mb", "timeout": "timeout_seconds", "cpu": "max_cpu_cores", "processes": "max_processes", "output": "max_output_bytes",
}
