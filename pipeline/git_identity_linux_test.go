package pipeline

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestGitIdentity: commits have the operator's author, or the session's, or what the code's own environment says.
func TestGitIdentity(t *testing.T) {
	hosttest.Program(t, "git")
	p, _, _ := newReal(t, func(c *Config) { c.Git = GitIdentity{"Ada Lovelace", "ada@example.com"} })
	commit := "git init -q r && cd r && git commit -q --allow-empty -m x && git log -1 --format='%an %ae, %cn %ce'; cd ..; rm -rf r"
	for want, q := range map[string]Request{
		"Ada Lovelace ada@example.com, Ada Lovelace ada@example.com\n": {},
		"Own ada@example.com, Ada Lovelace ada@example.com\n":          {Env: []string{"GIT_AUTHOR_NAME=Own"}},
		"Bob ada@example.com, Bob ada@example.com\n":                   {Where: Where{Session: open(t, p, NewSession{Language: "shell", Git: GitIdentity{Name: "Bob"}}).ID}},
	} {
		q.Language, q.Code = "shell", []byte(commit)
		if _, res, err := Do(t.Context(), p, q); err != nil || res.Stdout != want {
			t.Errorf("got %q %s %v, want %q", res.Stdout, res.Stderr, err, want)
		}
	}
	if _, _, err := Do(t.Context(), p, NewSession{Language: "shell", Git: GitIdentity{Name: "a\x00b"}}); err == nil {
		t.Error("a name with a NUL byte was taken")
	}
}
