package pipeline

import (
	"cmp"
	"slices"
)

// GitIdentity is the author of git commits in a sandbox. It has no credentials: those are secrets bound to a host.
type GitIdentity struct{ Name, Email string }

// MaxGitField bounds each field, in bytes: all programs get them as variables.
const MaxGitField = 1000

// Or returns g with its empty fields taken from other.
func (g GitIdentity) Or(other GitIdentity) GitIdentity {
	return GitIdentity{Name: cmp.Or(g.Name, other.Name), Email: cmp.Or(g.Email, other.Email)}
}

// Env returns the environment variables that set the identity in git.
func (g GitIdentity) Env() (env []string) {
	if g.Name != "" {
		env = append(env, "GIT_AUTHOR_NAME="+g.Name, "GIT_COMMITTER_NAME="+g.Name)
	}
	if g.Email != "" {
		env = append(env, "GIT_AUTHOR_EMAIL="+g.Email, "GIT_COMMITTER_EMAIL="+g.Email)
	}
	return slices.Clip(env)
}
