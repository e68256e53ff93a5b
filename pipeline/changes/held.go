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

// caches are hidden files that only their own tool reads, and that hold no commands beyond those of the code beside
// them, which the same tool runs.
var caches = strings.Fields(`.pytest_cache .mypy_cache .ruff_cache .coverage .nyc_output node_modules/.bin node_modules/.package-lock.json node_modules/.cache
	target/.rustc_info.json target/*/.fingerprint target/*/.cargo-lock`)

// gitData are the files of a repository that commits, fetches and merges write, and that run nothing. All others, such
// as config and hooks, are held.
var gitData = strings.Fields(`objects refs logs index HEAD ORIG_HEAD FETCH_HEAD MERGE_HEAD MERGE_MSG MERGE_MODE CHERRY_PICK_HEAD REVERT_HEAD AUTO_MERGE
	SQUASH_MSG COMMIT_EDITMSG packed-refs shallow gc.log`)

// heldBecause returns why a path is applied only when it is named, "" if it is not held.
func heldBecause(name string) string {
	words := strings.Split(name, "/")
	for i := range words {
		words[i] = trap.Fold(words[i])
	}
	if i := slices.Index(words, ".git"); i >= 0 {
		if i == len(words)-1 {
			return "" // the directory alone runs nothing; a file of that name is held by the caller
		}
		return heldInGit(strings.Split(name, "/")[i+1:])
	}
	for end := len(words); end > 0; end-- {
		if matches(caches, words[:end]) {
			return ""
		}
	}
	if what := trap.Match("/"+name, "/", trap.Names); what != "" {
		return fmt.Sprintf("the host may run or obey %s by itself", quoteName(what))
	}
	if matches(buildServers, words) {
		return "a build server obeys it"
	}
	return ""
}

// matches reports whether the end of a path is one of names.
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

// heldInGit judges a path in a repository. Those of its submodules and linked worktrees have the same files.
func heldInGit(words []string) string {
	for len(words) > 2 && (words[0] == "modules" || words[0] == "worktrees") {
		// A submodule's name can have slashes: the first part that is one of a repository's files ends it.
		end := slices.IndexFunc(words[2:], func(w string) bool { return slices.Contains(gitData, w) || w == "modules" })
		if end < 0 {
			break
		}
		words = words[2+end:]
	}
	switch {
	case len(words) == 2 && words[0] == "objects" && words[1] == "info", slices.Contains(gitData, words[0]) && !strings.HasSuffix(words[len(words)-1], "alternates"):
		return ""
	case words[0] == "hooks":
		return "git runs its hooks on the host"
	}
	return "git obeys it on the host"
}
