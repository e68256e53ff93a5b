package run

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// An installer is a package manager that a program may call, and that can't install in a sandbox.
type installer struct {
	name, language string         // no language: a package manager of the system
	command        *regexp.Regexp // a call that installs; a group holds its arguments
	failed         *regexp.Regexp // its error messages; a group is the package
}

var installers = sync.OnceValue(func() []installer {
	return []installer{
		{"pip", "python", regexp.MustCompile(`\b(?:pip3?|conda)["'\s,]+install\b([^\n;&|]*)`), regexp.MustCompile(
			`externally-managed-environment|pip3?: (?:command )?not found|No module named pip\b|No matching distribution found for (\S+)|: /simple/([\w.-]+)/`)},
		{"npm", "node", regexp.MustCompile(`\b(?:npm["'\s,]+(?:install|i|add)|(?:yarn|pnpm)["'\s,]+add)\b([^\n;&|]*)`), regexp.MustCompile(
			`npm: (?:command )?not found|request to https?://[^/\s]+/(\S+) failed, reason`)},
		{"", "", regexp.MustCompile(`\b(?:apt-get|apt|yum|dnf|apk)\s+(?:-\S+\s+)*(?:install|add|update)\b([^\n;&|]*)`), regexp.MustCompile(
			`E: (?:Could not open lock file|Unable to acquire|Could not get lock|List directory \S+ is missing)|(?:apt-get|apt|yum|dnf|apk): (?:command )?not found|E: Unable to locate package (\S+)`)},
	}
})

// installHints returns remedies for a program that tried to install packages: a package manager complained, or the
// code calls one and the program tried the network or a missing command.
func (e *execution) installHints(output string, tried bool) (list []pipeline.Remedy) {
	res := e.Outcome
	output = lastWords(res.Stdout) + "\n" + lastWords(output)
	tried = tried || res.Ended != backends.EndedOK && strings.Contains(output, "not found")
	code := withoutComments().ReplaceAllString(string(e.program.Source), "")
	for _, i := range installers() {
		calls, failures := i.command.FindAllStringSubmatch(code, -1), i.failed.FindAllStringSubmatch(output, -1)
		if failures == nil && (calls == nil || !tried) {
			continue
		}
		names := packagesIn(calls)
		if names == nil {
			names = packagesIn(failures)
		}
		list = append(list, installHint(i, names, res.Session))
	}
	return list
}

// lastWords returns the end of an output, where a program explains why it failed: the expressions take half a
// microsecond a byte, and an output may have many megabytes.
func lastWords(output string) string { return output[max(0, len(output)-64<<10):] }

// installHint returns a remedy that installs packages of one package manager.
func installHint(i installer, names []string, session string) pipeline.Remedy {
	names = names[:min(len(names), 20)]
	if i.language == "" {
		what := "system packages"
		if names != nil {
			what += " (" + strings.Join(names, ", ") + ")"
		}
		return pipeline.Remedy{what, " can't be installed in the sandbox, which shows those of the host or the image: ask a person to add " +
			"them there; install packages of Python and Node with ", remedy.Install}
	}
	if names == nil {
		names = []string{"PACKAGE"}
	}
	how := pipeline.Remedy{i.name, " can't install in the sandbox, but this does: ", remedy.Install, " ",
		remedy.Packages.With(strings.Join(names, " ")), " ", remedy.ForProgram.With(i.language)}
	if session != "" {
		how = append(how, remedy.ForSession.With(session))
	}
	return how
}

// packagesIn extracts names of packages, sorted, from the arguments or the errors of an installer.
func packagesIn(found [][]string) (names []string) {
	for _, groups := range found {
		words := strings.FieldsFunc(strings.Join(groups[1:], " "), func(r rune) bool { return strings.ContainsRune(" \t\r\"'`,", r) })
		for n, word := range words {
			if strings.ContainsAny(word[:1], "])}#") {
				break
			}
			if packageName().MatchString(word) && (n == 0 || !takesValue().MatchString(words[n-1])) && !slices.Contains(names, word) {
				names = append(names, word)
			}
		}
	}
	slices.Sort(names)
	return names
}

var (
	withoutComments = lazy.Regexp(`(?m)(?:^|\s)(?:#|//).*$`)
	packageName     = lazy.Regexp(`^(?:@[\w.-]+/)?[A-Za-z][\w.-]{0,100}(?:\[[\w-]+\])?(?:[@=<>!~]+[\w.*-]+)?$`)
	// takesValue is an option whose value looks like a package.
	takesValue = lazy.Regexp(`^(?:-[rcteif]|-n|--requirement|--constraint|--target|--editable|--index-url|--extra-index-url|--find-links|--prefix|--registry|--name|--channel)$`)
)
