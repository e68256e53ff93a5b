package run_test

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestGitIdentity: commits have the operator's author, or the session's, or the author from the code's own environment.
func TestGitIdentity(t *testing.T) {
	hosttest.Program(t, "git")
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Git = pipeline.GitIdentity{Name: "Ada Lovelace", Email: "ada@example.com"}
	})
	commit := "git init -q r && cd r && git commit -q --allow-empty -m x && git log -1 --format='%an %ae, %cn %ce'; cd ..; rm -rf r"
	for want, q := range map[string]run.Request{
		"Ada Lovelace ada@example.com, Ada Lovelace ada@example.com\n": {},
		"Own ada@example.com, Ada Lovelace ada@example.com\n":          {Env: []string{"GIT_AUTHOR_NAME=Own"}},
		"Bob ada@example.com, Bob ada@example.com\n": {
			Where: run.Where{Session: pipelinetest.Open(t, p, session.New{Language: "shell", Git: pipeline.GitIdentity{Name: "Bob"}}).ID}},
	} {
		q.Language, q.Code = "shell", []byte(commit)
		if _, res, err := pipeline.Do(t.Context(), p, q); err != nil || res.Stdout != want {
			t.Errorf("got %q %s %v, want %q", res.Stdout, res.Stderr, err, want)
		}
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.New{Language: "shell", Git: pipeline.GitIdentity{Name: "a\x00b"}}); err == nil {
		t.Error("a name with a NUL byte was taken")
	}
}
