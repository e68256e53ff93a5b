package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// workspaceRig is a server with the workspaces app (changes are proposed), auto (applied) and ro, each with a.txt.
func workspaceRig(t *testing.T) (r *rig, read func(workspace, name string) string) {
	dir := t.TempDir()
	named := map[string]workspace.Named{}
	for name, policy := range map[string]workspace.Policy{"app": workspace.AskPerson, "auto": workspace.AutoApply, "ro": workspace.ReadOnly} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "a.txt"), []byte("one\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		named[name] = workspace.Named{Name: name, Path: path, Changes: policy}
	}
	r = newRig(t, func(cfg *Config) {
		cfg.Pipeline.Config.Approvals = cfg.Approvals
		*pipeline.EnsureSettings[workspace.Config](&cfg.Pipeline.Config) = workspace.Config{Dir: filepath.Join(dir, "sets"), Named: named}
	})
	return r, func(workspace, name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, workspace, name))
		return string(b)
	}
}

// answerQuestion answers the only open question.
func answerQuestion(t *testing.T, r *rig, allowed bool) {
	t.Helper()
	open := r.cfg.Approvals.Pending()
	if len(open) != 1 {
		t.Fatalf("questions: %+v", open)
	}
	if err := r.cfg.Approvals.Answer(t.Context(), open[0].ID, approval.Answer{Allowed: allowed, By: approval.CommandLine()}); err != nil {
		t.Fatal(err)
	}
}

// A run's changes are shown to the agent, and applied when a person says yes, whatever the agent does.
func TestWorkspaceOfRun(t *testing.T) {
	r, read := workspaceRig(t)
	p := r.hello("2025-11-25", `{}`)
	contains(t, p.tool("list_runtimes", `{}`).text, "workspaces, as /workspace: app (a person reviews the changes), auto (changes are applied",
		"ro (read-only)")
	got := p.tool("execute_code", `{"language":"shell","code":"cat a.txt; echo two >>a.txt; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit","workspace":"app"}`)
	contains(t, got.text, "one\n", "(proposed): 1 changed, 1 added", "held back", "request_host_access with kind changes")
	set, _ := got.facts["changes"].(map[string]any)["id"].(string)
	contains(t, p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"name":"changes.diff"}`, set)).text, "+two",
		"pre-commit is held back: git runs its hooks")
	contains(t, p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q}`, set)).text, "changes.diff, the changes to the workspace: change set "+
		set)
	contains(t, p.call("resources/read", fmt.Sprintf(`{"uri":"sandbox://runs/%s/changes.diff"}`, set)).line, `+two\n`, "text/x-diff")
	contains(t, p.call("resources/read", `{"uri":"sandbox://runs/01M8JDC9K6T3P5VJXV5V8YAVZ0/changes.diff"}`).line, "unknown change set")
	asking := fmt.Sprintf(`{"kind":"changes","pattern":%q,"reason":"done"}`, set)
	contains(t, p.tool("request_host_access", asking).text, "pending", "sandboxmcp approve")
	if read("app", "a.txt") != "one\n" {
		t.Fatal("it was applied before a person said yes")
	}
	answerQuestion(t, r, true)
	for range 100 {
		if got = p.tool("request_host_access", asking); strings.Contains(got.text, "applied") {
			break
		}
	}
	contains(t, got.text, "approved")
	if read("app", "a.txt") != "one\ntwo\n" || read("app", ".git/hooks/pre-commit") != "" {
		t.Errorf("a.txt %q, hook %q", read("app", "a.txt"), read("app", ".git/hooks/pre-commit"))
	}
}

func TestWorkspacePolicies(t *testing.T) {
	r, read := workspaceRig(t)
	p := r.hello("2025-11-25", `{}`)
	contains(t, p.tool("execute_code", `{"language":"shell","code":"echo two >>a.txt; exit 3","workspace":"auto"}`).text, "(proposed)")
	if read("auto", "a.txt") != "one\n" {
		t.Error("the changes of a run that failed are applied")
	}
	contains(t, p.tool("execute_code", `{"language":"shell","code":"echo two >>a.txt","workspace":"auto"}`).text, "(applied): 1 changed")
	if read("auto", "a.txt") != "one\ntwo\n" {
		t.Errorf("not applied: %q", read("auto", "a.txt"))
	}
	p.tool("execute_code", `{"language":"shell","code":"mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; echo y >b.txt","workspace":"auto"}`)
	if read("auto", ".git/hooks/pre-commit") != "" || read("auto", "b.txt") != "y\n" {
		t.Errorf("applied without a person: hook %q; b.txt %q", read("auto", ".git/hooks/pre-commit"), read("auto", "b.txt"))
	}
	id := sessionOf.FindStringSubmatch(p.tool("create_session", `{"language":"shell","workspace":"auto"}`).text)[1]
	contains(t, p.tool("execute_code", fmt.Sprintf(`{"session_id":%q,"code":"echo z >b.txt"}`, id)).text, "(applied): 1 changed")
	if read("auto", "b.txt") != "z\n" {
		t.Errorf("a session's changes are not applied: %q", read("auto", "b.txt"))
	}
	contains(t, p.tool("execute_code", `{"language":"shell","code":"echo two >>a.txt","workspace":"ro"}`).text, "denied")
	contains(t, p.tool("execute_code", `{"code":"1","workspace":"other"}`).text, `unknown workspace "other"`, "choose from: app, auto, ro")
	p.tool("execute_code", `{"language":"shell","code":"rm a.txt","workspace":"app"}`)
	set := p.tool("execute_code", `{"language":"shell","code":"rm a.txt","workspace":"app"}`).facts["changes"].(map[string]any)["id"].(string)
	contains(t, p.tool("request_host_access", fmt.Sprintf(`{"kind":"changes","pattern":%q,"namespace":"other"}`, set)).text,
		"unknown change set")
	p.tool("request_host_access", fmt.Sprintf(`{"kind":"changes","pattern":%q}`, set))
	answerQuestion(t, r, false)
	contains(t, p.tool("request_host_access", fmt.Sprintf(`{"kind":"changes","pattern":%q}`, set)).text, "denied")
	if read("app", "a.txt") != "one\n" {
		t.Error("applied though a person said no")
	}
}

// A session keeps its changes, shows them while it lives, goes on after they were applied, and proposes the rest at its
// end.
func TestWorkspaceOfSession(t *testing.T) {
	r, read := workspaceRig(t)
	p := r.hello("2025-11-25", `{}`)
	id := sessionOf.FindStringSubmatch(p.tool("create_session", `{"language":"shell","workspace":"app"}`).text)[1]
	other := sessionOf.FindStringSubmatch(p.tool("create_session", `{"language":"shell","workspace":"app"}`).text)[1]
	run := func(id, code string) string {
		return p.tool("execute_code", fmt.Sprintf(`{"session_id":%q,"code":%s}`, id, quoted(code))).text
	}
	contains(t, run(id, "echo two >>a.txt; echo new >b.txt; ls"), "artifacts", "- b.txt", "- a.txt")
	contains(t, run(other, "cat a.txt; ls; echo mine >a.txt"), "one\n")
	contains(t, p.tool("get_artifacts", fmt.Sprintf(`{"session_id":%q,"name":"changes.diff"}`, id)).text, "+two", "+new", "1 changed, 1 added")
	asking := fmt.Sprintf(`{"kind":"changes","pattern":%q}`, id)
	contains(t, p.tool("request_host_access", asking).text, "pending")
	answerQuestion(t, r, true)
	var got result
	for range 100 {
		if got = p.tool("request_host_access", asking); strings.Contains(got.text, "(applied)") {
			break
		}
	}
	contains(t, got.text, "(applied)")
	if read("app", "a.txt") != "one\ntwo\n" || read("app", "b.txt") != "new\n" {
		t.Errorf("a.txt %q, b.txt %q", read("app", "a.txt"), read("app", "b.txt"))
	}
	contains(t, run(id, "echo three >>a.txt; rm b.txt"), "a.txt")
	ended := p.tool("terminate_session", fmt.Sprintf(`{"session_id":%q}`, id))
	contains(t, ended.text, "(proposed): 1 changed, 1 removed")
	set := ended.facts["changes"].(map[string]any)["id"].(string)
	p.tool("request_host_access", fmt.Sprintf(`{"kind":"changes","pattern":%q}`, set))
	answerQuestion(t, r, true)
	for range 100 {
		if got = p.tool("request_host_access", fmt.Sprintf(`{"kind":"changes","pattern":%q}`, set)); strings.Contains(got.text, "applied") {
			break
		}
	}
	if read("app", "a.txt") != "one\ntwo\nthree\n" || read("app", "b.txt") != "" {
		t.Errorf("%s: a.txt %q, b.txt %q", got.text, read("app", "a.txt"), read("app", "b.txt"))
	}
	// The second session saw another file: its change is a conflict.
	set = p.tool("terminate_session", fmt.Sprintf(`{"session_id":%q}`, other)).facts["changes"].(map[string]any)["id"].(string)
	p.tool("request_host_access", fmt.Sprintf(`{"kind":"changes","pattern":%q}`, set))
	answerQuestion(t, r, true)
	contains(t, p.tool("request_host_access", fmt.Sprintf(`{"kind":"changes","pattern":%q}`, set)).text, "a.txt")
	if read("app", "a.txt") != "one\ntwo\nthree\n" {
		t.Errorf("a conflict was applied: %q", read("app", "a.txt"))
	}
}

// A workspace that is a linked worktree works with git: its repository is shown read-only beside it.
func TestLinkedWorktree(t *testing.T) {
	git, base := hosttest.Program(t, "git"), t.TempDir()
	script := "git init -q main && cd main && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first-commit && git worktree " +
		"add -q ../linked"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.Env = base, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "PATH="+filepath.Dir(git)+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	r := newRig(t, func(cfg *Config) {
		*pipeline.EnsureSettings[workspace.Config](&cfg.Pipeline.Config) = workspace.Config{Dir: t.TempDir(),
			Named: map[string]workspace.Named{"app": {Name: "app", Path: filepath.Join(base, "linked"), Changes: workspace.AskPerson}}}
	})
	p := r.hello("2025-11-25", `{}`)
	contains(t, p.tool("execute_code", `{"language":"shell","code":"git log --oneline","workspace":"app"}`).text, "first-commit")
	id := sessionOf.FindStringSubmatch(p.tool("create_session", `{"language":"shell","workspace":"app"}`).text)[1]
	contains(t, p.tool("execute_code", fmt.Sprintf(`{"session_id":%q,"code":"git log --oneline"}`, id)).text, "first-commit")
}
