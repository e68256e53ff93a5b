package mcp

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// TestHostTools runs real commands: one that the configuration allows, and one that a person approves.
func TestHostTools(t *testing.T) {
	policy, err := host.NewPolicy(host.Rules{Allowed: []string{"echo **"}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) {
		memory := vault.NewMemory()
		memory.Set("default", "KEY", []byte("correct-horse-"+"battery-staple"))
		c.Pipeline = pipeline.New(pipeline.Config{Audit: c.Log.(pipeline.Recorder), Approvals: c.Approvals, Vault: vault.New(memory),
			Settings: []any{&host.Config{Enabled: true, Policy: policy}}})
	})
	t.Cleanup(func() { r.cfg.Pipeline.Close() })
	p := r.hello("2025-06-18", "{}")

	got := p.tool("host_exec", `{"command":"echo 'hello  host' correct-horse-battery-staple"}`)
	contains(t, got.text, "exit code 0", "hello  host ***REDACTED***", "echo **")
	if got.IsError || got.facts["stdout"] != "hello  host ***REDACTED***\n" || got.facts["pattern"] != "echo **" ||
		got.facts["ended"] != "ok" {
		t.Errorf("got %v", got.facts)
	}
	got = p.tool("host_exec", `{"command":"uname -s"}`)
	contains(t, got.text, "not allowed: uname -s", "request_host_access with kind command and pattern uname -s")
	if !got.IsError {
		t.Error("a refusal is a result")
	}
	contains(t, p.tool("host_exec", `{"command":"echo x; id"}`).text, "an unquoted ;")
	contains(t, p.tool("host_exec", `{"command":"bash -c id"}`).text, "not allowed: bash -c id", "pattern bash -c id")
	contains(t, p.tool("host_exec", `{"command":"echo x","directory":"/root"}`).text, "not below a directory that is allowed",
		"list_host_access")
	contains(t, p.tool("request_host_access", `{"kind":"command","pattern":"python3 *"}`).text, "leave out the star")
	contains(t, p.tool("request_host_access", `{"kind":"command","pattern":"*"}`).text, "does not say which program")

	const want = `{"kind":"command","pattern":"uname *","reason":"to know the system"}`
	contains(t, p.tool("request_host_access", want).text, "pending")
	open := r.cfg.Approvals.Pending()
	if len(open) != 1 || open[0].What != "run uname *" || open[0].Kind != approval.Host {
		t.Fatalf("asked is %+v", open)
	}
	if err := r.cfg.Approvals.Answer(t.Context(), open[0].ID, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
		t.Fatal(err)
	}
	contains(t, p.tool("request_host_access", want).text, "approved")
	contains(t, p.tool("host_exec", `{"command":"uname -s"}`).text, "not allowed:") // * does not match options
	contains(t, p.tool("host_exec", `{"command":"uname extra"}`).text, "exit code 1", "extra operand")
	got = p.tool("list_host_access", `{}`)
	contains(t, got.text, "command echo **, by configuration", "command uname *, by approval, until ")
	if list, _ := got.facts["access"].([]any); len(list) != 2 {
		t.Errorf("got %v", got.facts)
	}
	contains(t, p.tool("list_host_access", `{"namespace":"other"}`).text, "echo **")
	contains(t, p.tool("host_exec", `{"command":"uname extra","namespace":"other"}`).text, "not allowed:")
	contains(t, p.tool("audit_execution", `{"limit":100}`).text, "host_exec", "execution.refused", "execution.completed")
}
