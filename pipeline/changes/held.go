package changes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host/trap"
)

// buildServers are files that a build server obeys, besides hidden ones.
var buildServers = strings.Fields(`jenkinsfile* azure-pipelines*.y*ml appveyor.y*ml bitbucket-pipelines.y*ml buildspec*.y*ml cloudbuild.y*ml codemagic.y*ml circle.yml
	wercker.yml semaphore.yml`)

// caches are hidden files that only their own tool reads. They hold no commands except those of the code beside them,
// which the same tool runs.
var caches = strings.Fields(`.pytest_cache .mypy_cache .ruff_cache .coverage .nyc_output node_modules/.bin node_modules/.package-lock.json node_modules/.cache
	target/.rustc_info.json target/*/.fingerprint target/*/.cargo-*lock`)

// packageFiles are hidden files of installed packages. Linters and build servers read them only when they work on the
// package itself, and a person who runs a program of the project runs the package's code anyway.
var packageFiles = strings.Fields(`.github .circleci .travis.yml .appveyor.yml .coveralls.yml .codecov.yml .codeclimate.yml .eslint* .nyc* .npmignore .prettier*
	.jshint* .jscs* .babelrc* .mocharc* .istanbul.yml .zuul.yml .airtap.yml .tap* .lint* .nvmrc .node-version .gitattributes .browserslistrc .changeset .release* .yarn*`)

// gitData are the files of a repository that commits, fetches and merges write, and that run nothing. All other files,
// such as config and hooks, are held.
var gitData = strings.Fields(`objects refs logs index HEAD ORIG_HEAD FETCH_HEAD MERGE_HEAD MERGE_MSG MERGE_MODE CHERRY_PICK_HEAD REVERT_HEAD AUTO_MERGE
	SQUASH_MSG COMMIT_EDITMSG packed-refs shallow gc.log`)

// verdict says why a path is held, "" if it is not, and the kind of directory around it.
type verdict struct {
	why   string
	cache bool   // it is, or is in, one of caches
	pkgs  bool   // it is in node_modules
	inGit bool   // it is, or is in, the .git of a repository
	git   string // its path in .git
}

// judge caches the verdicts of directories: a directory may contain 100,000 paths, and a path 2,000 names.
type judge map[string]verdict

// heldBecause returns why a path is applied only when it is named, or "" if the path is not held.
func heldBecause(name string) string { return judge{}.path(name).why }

func (j judge) path(name string) verdict {
	var up verdict
	dir, base := dirOf(name), name
	if dir != "." {
		base = name[len(dir)+1:]
		var known bool
		if up, known = j[dir]; !known {
			up = j.path(dir)
			j[dir] = up
		}
	}
	switch {
	case up.inGit:
		up.git = strings.TrimPrefix(up.git+"/"+base, "/")
		up.why = heldInGit(strings.Split(up.git, "/"))
		return up
	case up.cache, up.why != "":
		return up
	case trap.Fold(base) == ".git":
		return verdict{inGit: true} // the directory alone runs nothing; the caller holds a file of that name
	}
	words := lastWords(name)
	if matches(caches, words) || up.pkgs && matches(packageFiles, words) {
		return verdict{cache: true}
	}
	if what := trap.Match("/"+strings.Join(words, "/"), "/"+strings.Join(words[:len(words)-1], "/"), trap.Names); what != "" {
		return verdict{why: fmt.Sprintf("the host may run or obey %s by itself", quoteName(what))}
	}
	if matches(buildServers, words) {
		return verdict{why: "a build server obeys it"}
	}
	return verdict{pkgs: up.pkgs || words[len(words)-1] == "node_modules"}
}

// lastWords returns the last names of a path, as many as the longest pattern in the lists has.
func lastWords(name string) []string {
	at := len(name)
	for range 4 {
		at = strings.LastIndexByte(name[:max(at, 0)], '/')
	}
	words := strings.Split(name[at+1:], "/")
	for i := range words {
		words[i] = trap.Fold(words[i])
	}
	return words
}

// matches reports whether the last names of a path match one of the patterns in names.
func matches(names, words []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		depth := strings.Count(n, "/") + 1
		if depth > len(words) {
			return false
		}
		ok, _ := path.Match(n, strings.Join(words[len(words)-depth:], "/"))
		return ok
	})
}

// heldInGit returns why a path in a repository is held. Submodules and linked worktrees contain the same files.
func heldInGit(words []string) string {
	for len(words) > 2 && (words[0] == "modules" || words[0] == "worktrees") {
		// A submodule's name may contain slashes: it ends at the first part that is one of a repository's files.
		end := slices.IndexFunc(words[2:], func(w string) bool { return slices.Contains(gitData, w) || w == "modules" })
		if end < 0 {
			break
		}
		words = words[2+end:]
	}
	switch {
	case len(words) == 2 && (words[0] == "objects" && words[1] == "info" || words[0] == "info" && words[1] == "refs"),
		slices.Contains(gitData, words[0]) && !strings.HasSuffix(words[len(words)-1], "alternates"):
		return ""
	case words[0] == "hooks":
		return "git runs its hooks on the host"
	}
	return "git obeys it on the host"
}
