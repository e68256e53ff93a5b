package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// gitIn runs the git of this machine.
func gitIn(t *testing.T, dir string, words ...string) {
	t.Helper()
	cmd := exec.Command("git", words...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v: %s", words, err, out)
	}
}

// doubtOf returns the doubt of gitDoubt about the words with that git.
func doubtOf(t *testing.T, dir string, words ...string) string {
	t.Helper()
	git, err := (&Policy{}).FindProgram("git")
	if err != nil {
		hosttest.SkipMissing(t, "git", err.Error())
	}
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	return (&Policy{}).gitDoubt(git, dir, words)
}

func file(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	must(t, err)
}

// evil has git run a program, without a setting that our environment overrides.
const evil = "[diff]\n\texternal = ./x\n"

func TestGitDoubt(t *testing.T) {
	for name, tt := range map[string]struct {
		config string
		doubt  bool
	}{
		"a clone": {"[remote \"origin\"]\n\turl = x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch " +
			"\"a.b\"]\n\tremote = origin\n\tmerge = refs/heads/main\n", false},
		"fsmonitor in capitals":     {"[CORE] FSMonitor = ./x\n", true},
		"a section in the old way":  {"[remote.origin]\n\tuploadpack = x\n", true},
		"a value on the next line":  {"[core]\n\tsshCommand = \\\n./x\n", true},
		"a filter":                  {"[filter \"x\"]\n\tclean = ./x\n", true},
		"a diff driver":             {"[diff \"x\"]\n\ttextconv = ./x\n", true},
		"another diff driver":       {evil, true},
		"a merge driver":            {"[merge \"x\"]\n\tdriver = ./x\n", true},
		"a pager":                   {"[pager]\n\tlog = ./x\n", true},
		"a key without a value":     {"[core]\n\thooksPath\n", true},
		"an alias":                  {"[alias]\n\tx = !id\n", true},
		"an include":                {"[include]\n\tpath = x\n", true},
		"a conditional include":     {"[includeIf \"gitdir:/\"]\n\tpath = x\n", true},
		"signing":                   {"[gpg]\n\tprogram = ./x\n", true},
		"credentials":               {"[credential]\n\thelper = !x\n", true},
		"a remote's helper":         {"[remote \"origin\"]\n\tvcs = x\n", true},
		"another work tree":         {"[core]\n\tworktree = /\n", true},
		"settings of the work tree": {"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gitIn(t, dir, "init", "-q")
			file(t, dir+"/.git/config", tt.config)
			file(t, dir+"/.git/config.worktree", evil)
			file(t, dir+"/sub/x", "")
			tree := t.TempDir()
			file(t, tree+"/.git", "gitdir: "+dir+"/.git\n")
			for _, at := range []string{dir, dir + "/sub", tree} {
				if got := doubtOf(t, at); (got != "") != tt.doubt {
					t.Errorf("in %s: got %q, want a doubt: %v", at, got, tt.doubt)
				}
			}
		})
	}
}

// TestGitSubmodules has the index name a repository, whose configuration git takes when it looks for changes in it.
func TestGitSubmodules(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []string{dir, dir + "/sub/one"} {
		file(t, at+"/x", "")
		gitIn(t, at, "init", "-q")
		gitIn(t, at, "add", "x")
		gitIn(t, at, "commit", "-q", "-m", "x")
	}
	if why := doubtOf(t, dir+"/sub"); why != "" {
		t.Errorf("before there is one: %s", why)
	}
	gitIn(t, dir, "add", "sub/one")
	file(t, dir+"/other/x", "")
	for _, at := range []string{dir, dir + "/sub", dir + "/other"} {
		if why := doubtOf(t, at); !strings.Contains(why, "submodules") {
			t.Errorf("in %s: got %q, want the doubt about submodules", at, why)
		}
	}
}

// TestGitPlaces has git take its configuration from where a look at .git alone does not find it.
func TestGitPlaces(t *testing.T) {
	for name, make := range map[string]func(dir string){
		"commondir in a directory .git": func(dir string) {
			gitIn(t, dir, "init", "-q", "--bare", "other")
			file(t, dir+"/other/config", evil)
			file(t, dir+"/.git/commondir", "../other\n")
			file(t, dir+"/.git/HEAD", "ref: refs/heads/x\n")
		},
		"a blank at the end of gitdir": func(dir string) {
			gitIn(t, dir, "init", "-q", "--bare", "real")
			gitIn(t, dir, "init", "-q", "--bare", "real ")
			file(t, dir+"/real /config", evil)
			file(t, dir+"/.git", "gitdir: real \n")
		},
		"above a .git that is not a repository": func(dir string) {
			gitIn(t, filepath.Dir(dir), "init", "-q")
			file(t, filepath.Dir(dir)+"/.git/config", evil)
			file(t, dir+"/.git/x", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "repository")
			must(t, os.Mkdir(dir, 0o755))
			make(dir)
			if why := doubtOf(t, dir); !strings.Contains(why, "diff.external") {
				t.Errorf("got %q, want the doubt about diff.external", why)
			}
		})
	}
}

// TestGitElsewhere has words name a repository that is not around.
func TestGitElsewhere(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"here", "there/evil", "there/both"} {
		gitIn(t, dir, "init", "-q", name)
	}
	gitIn(t, dir, "init", "-q", "--bare", "bare.git")
	for _, name := range []string{"there/evil/.git", "there/both/.git", "bare.git"} {
		file(t, filepath.Join(dir, name, "config"), evil)
	}
	for name, text := range map[string]string{"shared/HEAD": "ref: refs/heads/x\n", "shared/commondir": "../bare.git\n",
		"there/both/HEAD": "x", "there/evil/sub/x": "", "there/plain/HEAD": "x"} {
		file(t, filepath.Join(dir, name), text)
	}
	for command, doubt := range map[string]bool{
		"git status": false, "git -C . status": false, "git -C ../there status": false, "git -C none status": false,
		"git diff --no-index ../there x": false, "git -C ../there/plain status": false,
		"git -C ../there/evil status": true, "git -C ../there/evil/sub status": true, "git -C ../there -C evil status": true,
		"git --git-dir=../bare.git log": true, "git --git-dir ../bare.git log": true,
		"git --git-dir=" + dir + "/there/evil/.git log": true, "git --work-tree=../there/evil status": true, "git fetch ../bare.git": true,
		"git --git-dir=../shared log": true, "git -C ../there/both log": true,
		"git add" + strings.Repeat(" .", 100): false,
	} {
		words, err := Parse(command)
		must(t, err)
		if why := doubtOf(t, filepath.Join(dir, "here"), words[1:]...); (why != "") != doubt {
			t.Errorf("%s: got %q, want a doubt: %v", command, why, doubt)
		}
	}
}

// TestGitHostileFiles: a user that may write into a directory can put endless files there.
func TestGitHostileFiles(t *testing.T) {
	fifo := func(name string) error { return unix.Mkfifo(name, 0o666) }
	endless := func(name string) error {
		if err := os.WriteFile(name, []byte("[core]\n\tx = "), 0o644); err != nil {
			return err
		}
		return os.Truncate(name, 1<<40)
	}
	for _, tt := range []struct {
		name, file string
		make       func(string) error
	}{
		{"a fifo for a repository", ".git", fifo}, {"a fifo for its settings", ".git/config", fifo},
		{"a link without an end", ".git", endless}, {"settings without an end", ".git/config", endless},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if tt.file == ".git/config" {
				gitIn(t, dir, "init", "-q")
			}
			name := filepath.Join(dir, tt.file)
			_ = os.Remove(name)
			must(t, tt.make(name))
			if why := doubtOf(t, dir); why == "" && tt.file != ".git" { // and it is not waited for
				t.Error("there is no doubt")
			}
		})
	}
}
