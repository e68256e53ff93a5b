package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// Bounds of the inspection of a repository.
const (
	maxGitOutput      = 32 << 20 // bytes
	maxGitDirectories = 20
	gitTimeout        = 5 * time.Second
)

// gitDoubt describes why git must not run in a directory: a repository's own configuration can name programs for git
// to run (core.fsmonitor, filters, diff drivers, ssh commands), and anybody who may write into the repository may
// write that too. Git itself reports its settings, and keys that are not known to be harmless are refused. "" means
// no doubt, also if there is no repository. Changes after the inspection go unnoticed.
//
// The words of a command may name other repositories, as those of -C and --git-dir do: each directory among them is
// inspected too.
func (p *Policy) gitDoubt(git Program, dir string, args []string) string {
	dirs := gitDirectories(dir, args)
	if len(dirs) > maxGitDirectories {
		return fmt.Sprintf("its words name more than %d directories", maxGitDirectories)
	}
	for _, at := range dirs {
		why := p.doubtAt(git, at)
		if _, err := os.Lstat(filepath.Join(at, "HEAD")); err == nil && why == "" { // possibly a bare repository
			why = p.doubtAt(git, at, "--git-dir=.")
		}
		if why != "" {
			return "the repository around " + at + " has " + why
		}
	}
	return ""
}

func (p *Policy) doubtAt(git Program, dir string, options ...string) string {
	settings, err := p.askGit(git, dir, append(options, "config", "--list", "--show-scope", "-z"))
	entries := ""
	if err == nil {
		entries, err = p.askGit(git, dir, append(options, "ls-files", "--stage", "-z", ":/"))
	}
	switch {
	case err != nil:
		return "what can't be looked at: " + err.Error()
	case strings.Contains("\x00"+entries, "\x00160000 "):
		return "submodules, whose configurations are their own"
	}
	return doubtful(settings)
}

// gitDirectories returns the real directories in which git may look for repositories: its own, and those that words
// name.
func gitDirectories(dir string, args []string) (all []string) {
	for i, word := range append([]string{"."}, args...) {
		for _, name := range []string{word, word[strings.Index(word, "=")+1:]} {
			if !filepath.IsAbs(name) {
				name = dir + "/" + name
			}
			real, err := filepath.EvalSymlinks(name)
			if info, errStat := os.Stat(real); err != nil || errStat != nil || !info.IsDir() {
				continue
			}
			if !slices.Contains(all, real) {
				all = append(all, real)
			}
			if i > 1 && args[i-2] == "-C" { // the base of the next one
				dir = real
			}
		}
	}
	return all
}

// nothingHere matches git's message if it finds no repository, or an unsuitable one. All other commands give the same
// message.
var nothingHere = lazy.Regexp(`^fatal: (not a git repository|cannot use bare repository|this operation must be run in a work tree)`)

// askGit returns the output of git in a directory, within bounds: the repository may be foreign and endless.
func (p *Policy) askGit(git Program, dir string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	var out, why capped
	end, err := Run{Program: git, Words: append(Words{"git"}, args...), Directory: dir, Env: p.Environment(nil, os.LookupEnv),
		Stdout: &out, Stderr: &why, Bounds: launch.Bounds{RAM: 512 << 20, Processes: 16}}.Exec(ctx)
	switch {
	case err != nil:
		return "", err
	case end.Exit == 0 && out.Len() < maxGitOutput:
		return out.String(), nil
	case nothingHere().MatchString(why.String()):
		return "", nil
	}
	line, _, _ := strings.Cut(why.String(), "\n")
	return "", fmt.Errorf("git exited with %d after %d bytes: %.200s", end.Exit, out.Len(), line)
}

// capped keeps the first maxGitOutput bytes.
type capped struct{ strings.Builder }

func (c *capped) Write(b []byte) (int, error) {
	c.Builder.Write(b[:min(len(b), maxGitOutput-c.Len())])
	return len(b), nil
}

// doubtful returns a setting of the repository that is not known to be harmless, or "". It ignores settings of the
// machine, the user and the command.
func doubtful(settings string) string {
	fields := strings.Split(settings, "\x00")
	for i := 1; i < len(fields); i += 2 {
		key, _, _ := strings.Cut(fields[i], "\n")
		words := strings.Split(key, ".")
		section, name := words[0], words[len(words)-1]
		if len(words) > 2 {
			section += ".*"
		}
		own := !slices.Contains([]string{"system", "global", "command"}, fields[i-1])
		if own && !slices.Contains(strings.Fields(harmlessKeys[section]), name) {
			return key + ", which may run programs"
		}
	}
	return ""
}

// harmlessKeys are settings of a repository that name no program and no other file.
var harmlessKeys = map[string]string{
	"core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol safecrlf " +
		"sharedrepository " +
		"quotepath abbrev untrackedcache preloadindex whitespace commentchar trustctime checkstat compression protecthfs protectntfs splitindex sparsecheckout sparsecheckoutcone",
	"remote.*":    "url fetch pushurl mirror tagopt prune push promisor partialclonefilter skipdefaultupdate skipfetchall gh-resolved",
	"branch.*":    "remote merge rebase pushremote description vscode-merge-base gh-merge-base",
	"branch":      "autosetupmerge autosetuprebase sort",
	"user":        "name email useconfigonly",
	"init":        "defaultbranch",
	"pull":        "rebase ff",
	"push":        "default autosetupremote followtags",
	"fetch":       "prune prunetags",
	"color":       "ui",
	"extensions":  "objectformat worktreeconfig refstorage partialclone relativeworktrees",
	"rerere":      "enabled",
	"gc":          "auto",
	"diff":        "renames algorithm mnemonicprefix colormoved",
	"merge":       "conflictstyle ff",
	"log":         "date decorate",
	"lfs":         "repositoryformatversion",
	"index":       "version threads",
	"commit":      "verbose",
	"maintenance": "auto",
}

// gitEnvironment disables settings of repositories, and of the user's own configuration, that are known to run
// programs.
func gitEnvironment(roots []files.Root) []string {
	ceilings := make([]string, len(roots))
	for i, r := range roots {
		if real, err := filepath.EvalSymlinks(r.Path); err == nil { // git searches upwards from the real path
			r.Path = real
		}
		ceilings[i] = filepath.Dir(r.Path)
	}
	env := []string{"GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_LAZY_FETCH=1", // inspecting a partial clone would contact its remote
		"GIT_ALLOW_PROTOCOL=https:ssh", "GIT_CEILING_DIRECTORIES=" + strings.Join(ceilings, ":")}
	for i, kv := range gitSettings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return append(env, fmt.Sprint("GIT_CONFIG_COUNT=", len(gitSettings)))
}

var gitSettings = [][2]string{
	{"core.fsmonitor", "false"}, {"core.hooksPath", "/dev/null"}, {"core.pager", "cat"}, {"safe.bareRepository", "explicit"},
	{"protocol.ext.allow", "never"}, {"diff.ignoreSubmodules", "all"}, {"submodule.recurse", "false"}, {"fetch.recurseSubmodules", "false"},
	{"gc.auto", "0"}, {"maintenance.auto", "false"},
}
