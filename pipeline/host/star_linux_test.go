package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// launched are commands that got past lists of allowed programs, or would: as published about agents (CVE-2026-22708,
// CVE-2026-31992, arXiv 2606.15549, advisories about sed, sort, find and git in their read-only lists) and on
// https://gtfobins.github.io. Each runs a word that is no option.
const launched = `python3 x|python3.12 x|python3.12-config|pypy3 x|node x|nodejs x|perl5.36-x86_64-linux-gnu x|ruby3.1 x|php8.2 x|lua5.4 x|R x|java x|deno run x|bun x|tclsh8.6 x|
	awk 'BEGIN{system(1)}'|mawk x|sed '1e id' x|ed x|bc x|jq x|sqlite3 x '.shell id'|PYTHON3 x|sh x|bash-5.2 x|zsh x|busybox sh|toybox x|dash x|fish x|rbash x|sudo ls|su x|doas x|env ls|xargs sh|
	nohup x|nice x|ionice x|timeout 5 sh|stdbuf sh|setsid x|script x|watch id|strace id|unshare sh|nsenter x|chroot / sh|systemd-run id|at now|crontab x|parallel id|flock x sh|taskset 1 sh|
	ld-linux-x86-64.so.2 /bin/sh|ld.so /bin/sh|runuser x|setpriv sh|pkexec sh|bwrap sh|run-parts x|dbus-send x|busctl call x|gdb x|vim.basic x|vi x|less x|more x|emacs x|pip3 install x|npm x|npx x|
	go run x|cargo run|make x|ssh x id|scp x y|rsync x y|nc.openbsd x 1|socat x exec:sh|telnet x|insmod x|pydoc3.11 ./x|lli-14 x.ll|prove x|msgfilter id|not-14 id|x-terminal-emulator x|
	sotruss id|scriptlive x|debconf id|runc run x|tar xIf id x|bsdtar xf x|find . x|fdfind x|rg x|git x|git bisect run id|git submodule foreach id|docker run x|podman unshare sh|
	kubectl x|systemctl edit x|apt install x|sandboxmcp approve x|sandboxmcp-1.2 approve x`

// withOptions are such in which an option, a file of options or a setting does it.
const withOptions = `git diff --output=/etc/x|git log --output x|git fetch --upload-pack=id origin|git push --exec=id|git diff --no-index a b|git grep -Oid x|git rebase --exec id|git add -e|git difftool -x id|
	git archive --remote=x --exec=id|git commit -F /etc/shadow|sort --compress-program=sh x|sort --files0-from=x|wc --files0-from=x|grep -f /etc/shadow x|date -s 2020-01-01|date --file=/etc/shadow|
	hostname -F /etc/shadow|unzip x -o|zip x y -T -TT id|7za a @x|gcc-12 @x|gcc-12 -wrapper sh,-c,id x|javac @x|curl -o x y|curl x -K y|wget x --use-askpass=sh|tcpdump -z x|dd of=/etc/x|
	openssl req -engine ./x.so|gpg --photo-viewer x|nm --plugin ./x.so y|docker logs --host=tcp://x|docker start -ai x|docker top x -eo args|kubectl get pods -o x|kubectl get --kubeconfig=x|
	systemctl start --root=/tmp x|systemctl set-environment x=y|journalctl --file=/etc/shadow|ss -D /etc/x|ip -b x`

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

// TestBypasses tries each command after people have allowed patterns whose star would have to stand for the words that
// start another program.
func TestBypasses(t *testing.T) {
	split := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("|\n\t", r) })
	}
	commands := slices.Concat(split(launched), split(withOptions))
	p, err := NewPolicy(Rules{Path: []string{everything(t, commands...)}})
	must(t, err)
	for n, command := range commands {
		words, err := Parse(command)
		must(t, err)
		ours, first := strings.HasPrefix(command, "sandboxmcp"), 1
		if n >= len(split(launched)) {
			first = slices.IndexFunc(words, func(word string) bool { return strings.ContainsAny(word[:1], "-@") || strings.Contains(word, "=") })
		}
		for i := 1; i <= first && i <= len(words); i++ {
			starred := []Pattern{{words[:i], true}}
			if one := Exactly(words); i == first && i < len(words) {
				one.words[i] = star
				starred = append(starred, one)
			}
			for _, one := range starred {
				_, err := p.Decide(Command{Words: words, Directory: "/"}, []Pattern{one})
				if no, is := errors.AsType[*Refusal](err); !is || no.Ask == ours {
					t.Errorf("%s by %s: got %v; want that a person may be asked", command, one, err)
				}
				if first == 1 && n < len(split(launched)) && p.Askable(one) == nil {
					t.Errorf("a person would be asked for %s", one)
				}
			}
		}
		// A person who sees these words can allow them, and no others.
		if _, err := p.Decide(Command{Words: words, Directory: "/"}, []Pattern{Exactly(words)}); (err != nil) != ours {
			t.Errorf("the exact words %s: %v", command, err)
		}
		for _, other := range []Words{append(words[:len(words):len(words)], "x"), words[:len(words)-1]} {
			if _, err := p.Decide(Command{Words: other, Directory: "/"}, []Pattern{Exactly(words)}); err == nil {
				t.Errorf("%s runs, as %s was allowed", other, words)
			}
		}
	}
}

// TestBlockedWins has an operator block commands that would be allowed.
func TestBlockedWins(t *testing.T) {
	p, err := NewPolicy(Rules{Allowed: []string{"echo **", "sleep *"}, Blocked: []string{"echo secret **", "sleep 99"}})
	must(t, err)
	for command, want := range map[string]bool{
		"echo x": true, "echo secret": false, "echo secret x": false, "echo secret -n": false, "echo secret /a/b": false,
		"/bin/echo secret x": false, "/usr/bin/echo x": true, "sleep 1": true, "sleep 99": false,
	} {
		words, _ := Parse(command)
		approved := []Pattern{Exactly(words)}
		if _, err := p.Decide(Command{Words: words, Directory: "/"}, approved); (err == nil) != want {
			t.Errorf("%s: %v, want it allowed: %v", command, err, want)
		}
	}
	for pattern, want := range map[string]bool{
		"python3 **": false, "git -c *": false, "docker **": false, "tar -xf *": false, "find . -exec **": false, "sandboxmcp **": false,
		"/usr/bin/env *": false, "./x": false, "sandboxmcp approve x": false,
		"x a*": false, "deploy *": true, "docker restart *": true, "git log -n * **": true,
	} {
		if _, err := NewPolicy(Rules{Allowed: []string{pattern}}); (err == nil) != want {
			t.Errorf("%s: %v, want that it can be allowed: %v", pattern, err, want)
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

// TestOtherNames has programs under the names of others, and other names of programs that nobody may run.
func TestOtherNames(t *testing.T) {
	bin := everything(t, "git x", "python3 x", "which.debianutils x", "busybox x", "deploy x", "reboot x")
	self, err := os.Executable()
	must(t, err)
	for name, to := range map[string]string{"tidy": "python3", "which": "which.debianutils", "ls": "busybox", "ash": "busybox",
		"report": "git", "ours": self, "halt": "reboot"} {
		must(t, os.Symlink(to, filepath.Join(bin, name)))
	}
	must(t, os.Link(filepath.Join(bin, "reboot"), filepath.Join(bin, "poweroff")))
	p, err := NewPolicy(Rules{Path: []string{bin}, Blocked: []string{"reboot **"}})
	must(t, err)
	for _, tt := range []struct {
		program    string
		star, word bool
	}{
		{"which", true, true}, {"ls", true, true}, {"deploy", true, true}, {filepath.Join(bin, "deploy"), true, true},
		{"git", false, true}, {"report", false, true}, {"tidy", false, true}, {"ash", false, true}, {"busybox", false, true},
		{filepath.Join(bin, "python3"), false, true},
		{"ours", false, false}, {"reboot", false, false}, {"halt", false, false}, {"poweroff", false, false}, {"GIT", false, false},
	} {
		words := Words{tt.program, "status"}
		_, byStar := p.Decide(Command{Words: words, Directory: "/"}, []Pattern{{words[:1], true}})
		_, byWords := p.Decide(Command{Words: words, Directory: "/"}, []Pattern{Exactly(words)})
		if (byStar == nil) != tt.star || (byWords == nil) != tt.word {
			t.Errorf("%s: by a star %v, want it allowed: %v; by its words %v, want it allowed: %v", tt.program, byStar, tt.star, byWords, tt.word)
		}
	}
}
