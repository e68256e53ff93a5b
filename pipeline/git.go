package pipeline

import (
	"cmp"
	"slices"
)

// GitIdentity is who git says has made a commit in a sandbox. Credentials are another matter: secrets that are bound to
// a host.
type GitIdentity struct{ Name, Email string }

// MaxGitField bounds each of its fields, in bytes: they are variables of all programs.
const MaxGitField = 1000

// Or returns the identity with what it lacks from another.
func (g GitIdentity) Or(other GitIdentity) GitIdentity {
	return GitIdentity{Name: cmp.Or(g.Name, other.Name), Email: cmp.Or(g.Email, other.Email)}
}

// Env returns the variables by which git learns it.
func (g GitIdentity) Env() (env []string) {
	if g.Name != "" {
		env = append(env, "GIT_AUTHOR_NAME="+g.Name, "GIT_COMMITTER_NAME="+g.Name)
	}
	if g.Email != "" {
		env = append(env, "GIT_AUTHOR_EMAIL="+g.Email, "GIT_COMMITTER_EMAIL="+g.Email)
	}
	return slices.Clip(env)
}
