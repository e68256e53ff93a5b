package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// gitDoubt describes why git must not run in a directory: a repository's own configuration can name programs for git to run
// (core.fsmonitor, filters, diff drivers, ssh commands), and who may write into the repository may write that, too.
// Keys that are not known to be harmless are refused. "" is no doubt, also where there is no repository. What is
// written after we have looked is not seen.
//
// Each directory above is looked at: from a .git that is no repository to it, git goes on upwards.
//
// The words of a command may name other repositories, as those of -C and --git-dir do: each directory among them is looked at, too.
func gitDoubt(dir string, args []string) string {
	var places []gitPlace
	for i, word := range append([]string{"."}, args...) {
		for _, name := range []string{word, word[strings.Index(word, "=")+1:]} {
			if !filepath.IsAbs(name) {
				name = dir + "/" + name
			}
			real, err := filepath.EvalSymlinks(name)
			if info, errStat := os.Stat(real); err != nil || errStat != nil || !info.IsDir() {
				continue
			}
			more, err := gitPlaces(real)
			if _, none := os.Lstat(filepath.Join(real, "HEAD")); i > 0 && none == nil && err == nil { // it is one without a .git
				var own []gitPlace
				own, err = placesOf(real, real)
				more = append(more, own...)
			}
			if err != nil {
				return err.Error()
			}
			places = append(places, more...)
			if i > 1 && args[i-2] == "-C" { // which the next is relative to
				dir = real
			}
		}
	}
	for _, place := range places {
		if _, err := os.Lstat(filepath.Join(place.tree, ".gitmodules")); err == nil {
			return "it has submodules, whose configurations are their own"
		}
		for _, name := range []string{"config", "config.worktree"} {
			text, err := readSmall(filepath.Join(place.real, name))
			switch why := doubtful(string(text)); {
			case err != nil && !os.IsNotExist(err):
				return err.Error()
			case why != "":
				return filepath.Join(place.real, name) + " has " + why
			}
		}
	}
	return ""
}

// gitPlace is a real directory that git takes a repository from, and the directory whose .git has led there.
type gitPlace struct{ real, tree string }

// gitPlaces are those of a directory and of its parents: the one that a .git leads to, which may be a file, as in a worktree.
func gitPlaces(dir string) (all []gitPlace, err error) {
	for above := ""; above != dir; above, dir = dir, filepath.Dir(dir) {
		at := filepath.Join(dir, ".git")
		if _, err := os.Lstat(at); err != nil {
			continue
		}
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			at, err = named(at, "gitdir: ")
		}
		var own []gitPlace
		if err == nil {
			own, err = placesOf(at, dir)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, own...)
	}
	return all, nil
}

// placesOf are a repository's own directory, and the one that a file commondir in it names, which any can have.
func placesOf(at, tree string) ([]gitPlace, error) {
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return nil, err
	}
	common := filepath.Join(real, "commondir")
	if _, err := os.Lstat(common); os.IsNotExist(err) {
		return []gitPlace{{real, tree}}, nil
	}
	common, err = named(common, "")
	return []gitPlace{{real, tree}, {common, tree}}, err
}

// named is the path in a file of git's, which takes off the ends of lines, and no blanks. It is not made plain: what ..
// means depends on where links lead.
func named(file, prefix string) (string, error) {
	text, err := readSmall(file)
	to, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	if err == nil && !ok {
		err = fmt.Errorf("%s can't be read", file)
	}
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(to) {
		to = filepath.Dir(file) + "/" + to
	}
	return filepath.EvalSymlinks(to)
}

// holdsRepository reports whether all that git would show of the repository around dir is in directories that agents may reach:
// neither its files nor links in it may have another repository's objects shown.
func (p *Policy) holdsRepository(dir string) bool {
	places, err := gitPlaces(dir)
	return err == nil && !slices.ContainsFunc(places, func(place gitPlace) bool {
		looked := p.holds(place.tree) // git does not look further up: GIT_CEILING_DIRECTORIES
		return looked && (!p.holds(place.real) || !ownObjects(place.real))
	})
}

func ownObjects(place string) bool {
	if _, err := os.Lstat(filepath.Join(place, "objects", "info", "alternates")); err == nil {
		return false
	}
	return filepath.WalkDir(place, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name == filepath.Join(place, "hooks"): // which do not run
			return fs.SkipDir
		case e.Type()&fs.ModeSymlink != 0:
			return fs.ErrInvalid
		}
		return nil
	}) == nil
}

// maxGitFile is the longest file of a repository that is looked into, in bytes.
const maxGitFile = 1 << 20

// readSmall reads a file that others may have made: one that would hold us up, as a fifo does, or fill our memory, is
// an error.
func readSmall(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|statefile.NoWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", name))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxGitFile+1))
	if err == nil && len(text) > maxGitFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxGitFile)
	}
	return text, err
}

var (
	section = lazy.Regexp(`^\[([A-Za-z0-9.-]+)(?:[ \t]+"([^"\\]*)")?\]$`)
	setting = lazy.Regexp(`^([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[ \t]*([^\\]*))?$`)
)

// doubtful reads a configuration strictly: git takes more than these lines, and we refuse it.
func doubtful(text string) string {
	in := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if m := section().FindStringSubmatch(line); m != nil {
			in = strings.ToLower(m[1])
			if m[2] != "" {
				in += ".*"
			}
			continue
		}
		m := setting().FindStringSubmatch(line)
		if m == nil {
			return "a line that is not understood"
		}
		if key := strings.ToLower(m[1]); !slices.Contains(strings.Fields(harmlessKeys[in]), key) {
			return in + "." + key + ", which may run programs"
		}
	}
	return ""
}

// harmlessKeys are those of a repository that name no program and no other file.
var harmlessKeys = map[string]string{
	"core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol safecrlf sharedrepository " +
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

// gitEnvironment takes from repositories, and from the user's own configuration, what we know to run programs.
func gitEnvironment(roots []files.Root) []string {
	ceilings := make([]string, len(roots))
	for i, r := range roots {
		if real, err := filepath.EvalSymlinks(r.Path); err == nil { // git goes up from where it really is
			r.Path = real
		}
		ceilings[i] = filepath.Dir(r.Path)
	}
	env := []string{"GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false", "GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_LAZY_FETCH=1", // a look at a partial clone would reach whatever it names as its remote
		"GIT_ALLOW_PROTOCOL=https:ssh", "GIT_CEILING_DIRECTORIES=" + strings.Join(ceilings, ":")}
	for i, kv := range gitSettings {
		n := string(rune('0' + i))
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+kv[0], "GIT_CONFIG_VALUE_"+n+"="+kv[1])
	}
	return append(env, "GIT_CONFIG_COUNT="+string(rune('0'+len(gitSettings))))
}

// gitSettings are ten at most.
var gitSettings = [][2]string{
	{"core.fsmonitor", "false"}, {"core.hooksPath", "/dev/null"}, {"core.pager", "cat"}, {"safe.bareRepository", "explicit"},
	{"protocol.ext.allow", "never"}, {"diff.ignoreSubmodules", "all"}, {"submodule.recurse", "false"}, {"gc.auto", "0"}, {"maintenance.auto", "false"},
}
