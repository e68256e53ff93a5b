package packages

import (
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

const (
	maxPackages = 100 // per order
	maxSpec     = 256 // bytes of a spec
)

// A spec is a name and a range of versions. Options, URLs, paths and repositories are not names: they would change
// the source of packages, and have no version to request again and no hash from a registry.
var (
	pythonSpec = lazy.Regexp(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?) *(\[ *[A-Za-z0-9._-]+(?: *, *[A-Za-z0-9._-]+)* *\])? *` +
		`((?:===|==|~=|!=|<=|>=|<|>) *[A-Za-z0-9.*+!_-]+(?: *, *(?:===|==|~=|!=|<=|>=|<|>) *[A-Za-z0-9.*+!_-]+)*)?$`)
	nodeSpec = lazy.Regexp(`^((?:@[A-Za-z0-9~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*)(?:@([A-Za-z0-9^~<>=*][A-Za-z0-9.^~<>=|*+ -]*))?$`)
	// Package managers treat a name with such an ending as a file.
	archive = lazy.Regexp(`(?i)\.(whl|zip|tgz|tar|tar\.[a-z0-9]+|egg)$`)
)

// Check refuses invalid specs of packages. Valid are names with optional versions, and for Python extras, such as
// "requests[socks]>=2.31,<3", "left-pad@1.3.0" or "@types/node@^20". The error is a *backends.Refusal.
func Check(language string, specs []string) error {
	if _, ok := managers()[language]; !ok {
		return backends.Refuse(fmt.Sprintf("packages can't be installed for %q", language), "use python or node")
	}
	if len(specs) == 0 || len(specs) > maxPackages {
		return backends.Refuse(fmt.Sprintf("the order has %d packages", len(specs)), fmt.Sprintf("name between 1 and %d", maxPackages))
	}
	for _, spec := range specs {
		if specName(language, spec) == "" {
			return backends.Refuse(fmt.Sprintf("%q is not a package's name and version", shorten(spec)),
				"name packages of the registry like ", managers()[language].example, "; options, URLs and paths are not taken")
		}
	}
	return nil
}

// specName returns the name in a spec, "" if the spec is malformed.
func specName(language, spec string) string {
	m := managers()[language].spec().FindStringSubmatch(spec)
	if m == nil || len(spec) > maxSpec || spec[0] == '-' || archive().MatchString(spec) {
		return ""
	}
	return m[1]
}

func shorten(s string) string { return safetext.Clip(s, 80) }

// validName matches names of namespaces, and escaped matches their characters that are not portable in names of
// directories.
var (
	validName = lazy.Regexp(`^[A-Za-z0-9._-]{1,64}$`)
	escaped   = lazy.Regexp(`^\.|[A-Z]`)
)

// dirName returns the name of a namespace's directory. Different names have different directories, even on a file
// system that ignores case.
func dirName(namespace string) (string, error) {
	if !validName().MatchString(namespace) {
		return "", backends.Refuse(fmt.Sprintf("%q is not a valid namespace", shorten(namespace)),
			"use up to 64 letters, digits, dots, dashes and underscores")
	}
	return escaped().ReplaceAllStringFunc(namespace, func(c string) string { return fmt.Sprintf("+%02x", c[0]) }), nil
}
