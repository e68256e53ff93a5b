package containment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// CheckEnv refuses variables that are malformed, or that are secrets too.
func CheckEnv(env, secrets []string) error {
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok || !envName().MatchString(name):
			// The value may be secret, or the name may be the value by mistake, so the message quotes neither.
			return pipeline.Refuse(pipeline.StageValidate, "an environment variable is not of the form NAME=VALUE", remedy.SetEnv)
		case strings.Contains(value, "\x00"):
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the environment variable %s contains a NUL byte", name), "")
		case slices.Contains(secrets, name):
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%s is both a secret and an environment variable", name),
				"use one of ", remedy.Secret, " and ", remedy.Env)
		}
	}
	return nil
}

var envName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
