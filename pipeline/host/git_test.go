package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGitDoubt(t *testing.T) {
	const unremarkable = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
	tests := []struct {
		name, config string
		doubt        bool
	}{
		{"a new clone", unremarkable, false},
		{"comments", "# x\n; y\n" + unremarkable, false},
		{"fsmonitor", unremarkable + "[core]\n\tfsmonitor = ./x\n", true},
		{"fsmonitor in capitals", "[CORE]\n\tFSMonitor = ./x\n", true},
		{"fsmonitor on the section's line", "[core] fsmonitor = ./x\n", true},
		{"a value on the next line", "[core]\n\tbare = \\\nfalse\n", true},
		{"a section in the old way", "[remote.origin]\n\tuploadpack = x\n", true},
		{"a filter", "[filter \"x\"]\n\tclean = ./x\n", true},
		{"a diff driver", "[diff \"x\"]\n\ttextconv = ./x\n", true},
		{"another diff driver", "[diff]\n\texternal = ./x\n", true},
		{"a merge driver", "[merge \"x\"]\n\tdriver = ./x\n", true},
		{"ssh", "[core]\n\tsshCommand = ./x\n", true},
		{"a pager", "[pager]\n\tlog = ./x\n", true},
		{"hooks", "[core]\n\thooksPath = x\n", true},
		{"an alias", "[alias]\n\tx = !id\n", true},
		{"an include", "[include]\n\tpath = x\n", true},
		{"a conditional include", "[includeIf \"gitdir:/\"]\n\tpath = x\n", true},
		{"signing", "[gpg]\n\tprogram = ./x\n", true},
		{"credentials", "[credential]\n\thelper = !x\n", true},
		{"a remote's helper", "[remote \"origin\"]\n\tvcs = x\n", true},
		{"a remote's pack program", "[remote \"origin\"]\n\tuploadpack = ./x\n", true},
		{"another work tree", "[core]\n\tworktree = /\n", true},
		{"quotes in a name", "[remote \"a\\\"b\"]\n\turl = x\n", true},
		{"what git would not read", "[core\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.MkdirAll(filepath.Join(dir, ".git"), 0o755))
			must(os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
			must(os.WriteFile(filepath.Join(dir, ".git", "config"), []byte(tt.config), 0o644))
			if got := gitDoubt(filepath.Join(dir, "sub"), nil); (got != "") != tt.doubt {
				t.Errorf("got %q, want a doubt: %v", got, tt.doubt)
			}
			tree := t.TempDir()
			must(os.WriteFile(filepath.Join(tree, ".git"), []byte("gitdir: "+filepath.Join(dir, ".git")+"\n"), 0o644))
			if got := gitDoubt(tree, nil); (got != "") != tt.doubt {
				t.Errorf("in a worktree: got %q, want a doubt: %v", got, tt.doubt)
			}
		})
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitmodules"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if gitDoubt(dir, nil) == "" {
		t.Error("submodules are no doubt")
	}
}

// TestGitPlaces has git take its configuration from where a look at .git alone does not find it.
func TestGitPlaces(t *testing.T) {
	file := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const evil, fine = "[diff]\n\texternal = ./x\n", "[core]\n\tbare = false\n"
	tests := []struct {
		name string
		make func(dir string)
	}{
		{"commondir in a directory .git", func(dir string) {
			file(dir+"/.git/config", fine)
			file(dir+"/.git/commondir", "../other\n")
			file(dir+"/other/config", evil)
		}},
		{"a blank at the end of gitdir", func(dir string) {
			file(dir+"/.git", "gitdir: real \n")
			file(dir+"/real/config", fine)
			file(dir+"/real /config", evil)
		}},
		{"a blank at the end of commondir", func(dir string) {
			file(dir+"/.git/config", fine)
			file(dir+"/.git/commondir", "../other \r\n")
			file(dir+"/other/config", fine)
			file(dir+"/other /config", evil)
		}},
		{".. behind a link", func(dir string) {
			file(dir+"/.git", "gitdir: link/../real\n")
			file(dir+"/real/config", fine)
			file(dir+"/deep/real/config", evil)
			file(dir+"/deep/below/x", "")
			if err := os.Symlink("deep/below", dir+"/link"); err != nil {
				t.Fatal(err)
			}
		}},
		{"above a .git that is no repository", func(dir string) {
			file(filepath.Dir(dir)+"/.git/config", evil)
			file(dir+"/.git/x", "")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "repository")
			tt.make(dir)
			if why := gitDoubt(dir, nil); !strings.Contains(why, "diff.external") {
				t.Errorf("got %q, want the doubt about diff.external", why)
			}
		})
	}
}

// TestGitElsewhere has words name a repository that is not around.
func TestGitElsewhere(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"here/.git", "there/evil/.git", "there/evil/sub", "bare.git"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"bare.git/HEAD": "", "shared/HEAD": "", "shared/commondir": "../bare.git\n", "here/config": "a: [b]\n", "there/config": "a: [b]\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"there/evil/.git/config", "bare.git/config"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("[core]\n\tfsmonitor = ./x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for command, doubt := range map[string]bool{
		"git status": false, "git -C . status": false, "git -C ../there status": false, "git -C none status": false, "git diff --no-index ../there x": false,
		"git -C ../there/evil status": true, "git -C ../there/evil/sub status": true, "git -C ../there -C evil status": true, "git --git-dir=../bare.git log": true, "git --git-dir ../bare.git log": true,
		"git --git-dir=" + dir + "/there/evil/.git log": true, "git --work-tree=../there/evil status": true, "git fetch ../bare.git": true, "git --git-dir=../shared log": true,
	} {
		words, err := Parse(command)
		if err != nil {
			t.Fatal(err)
		}
		if why := gitDoubt(filepath.Join(dir, "here"), words[1:]); (why != "") != doubt {
			t.Errorf("%s: got %q, want a doubt: %v", command, why, doubt)
		}
	}
}
