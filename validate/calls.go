package validate

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

const (
	maxNested = 4        // the depth to which sh -c 'sh -c ...' is followed
	maxWord   = 16 << 10 // bytes of a text that is inspected
	maxHits   = 1000     // of one program; more tell nothing new
	tooMuch   = "there is too much in it"
)

// hitsOf returns the rules that apply to calls, and to the commands of a shell in them.
func hitsOf(language string, calls []call, nested int) (f findings) {
	for _, c := range calls {
		for _, p := range rulesTable().patterns[language][c.Path] {
			texts, holds := p.holds(c, calls)
			text := strings.Join(texts, " ")
			switch {
			case !holds:
			case p.rule.Severity != command:
				f.Hits = append(f.Hits, hit{p.rule.Name, c.At})
			case nested < maxNested && len(text) <= maxWord:
				tree, _ := parseShell(text)
				for _, h := range hitsOf(Shell, shellCalls(tree), nested+1).Hits {
					f.Hits = append(f.Hits, hit{h.Rule, c.At})
				}
			}
		}
		if len(f.Hits) > maxHits {
			f.Unread = tooMuch
			return f
		}
	}
	return f
}

// holds reports whether all conditions hold, and returns the values that the last of them is about.
func (p pattern) holds(c call, all []call) (values []string, holds bool) {
	for _, cond := range p.conditions {
		values = nil
		for _, key := range cond.keys {
			values = append(values, c.values(key, all)...)
		}
		if slices.ContainsFunc(values, cond.is) == cond.not {
			return values, false
		}
	}
	return values, true
}

func (c condition) is(value string) bool {
	switch c.kind {
	case "@system":
		return systemFile(value)
	case "@disk":
		return diskDevice().MatchString(value)
	case "@all":
		return everything(value)
	}
	return c.matches().MatchString(value)
}

// hasWord reports whether a word is one of several, which are written with blanks between them.
func hasWord(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}

// systemRoots are the directories that belong to the system.
var systemRoots = strings.Fields(`/etc /usr /bin /sbin /lib /lib32 /lib64 /boot /sys /proc /dev /var/lib
	/var/log /var/spool /var/run /run /root`)

var (
	// ordinaryFile matches those of the system's files that ordinary programs write to.
	ordinaryFile = lazy.Regexp(`^(/dev/(null|stdout|stderr|stdin|tty|shm|shm/.*|fd|fd/.*|mqueue/.*|pts/.*|tcp/.*|udp/.*)|/proc/self/(fd/.*|oom_score_adj|comm))$`)
	// privateFile matches the settings of a person's other programs.
	privateFile = lazy.Regexp(`^(~\w*|/root|/home/[^/]+)/\.(ssh|aws|gnupg|kube|docker|bashrc|bash_profile|bash_login|profile|zshrc|zprofile|` +
		`gitconfig|netrc|npmrc|pypirc|config/autostart|config/systemd|local/bin)(/|$)`)
	diskDevice = lazy.Regexp(`^/dev/((sd|hd|vd|xvd)[a-z*?]|nvme[0-9]|mmcblk|disk[0-9/]|mapper/|mem$|kmem$|loop[0-9]|dm-)`)
)

// systemFile reports whether a path belongs to the system, or to a person's settings; "~" is a home.
func systemFile(name string) bool {
	if name == "" || ordinaryFile().MatchString(path.Clean(name)) {
		return false
	}
	name = path.Clean(name)
	return privateFile().MatchString(name) || slices.ContainsFunc(systemRoots, func(root string) bool {
		return paths.Within(name, root)
	})
}

// everything reports whether a path or a shell's pattern names nearly all files.
func everything(name string) bool {
	if name == "" {
		return false
	}
	clean := path.Clean(strings.TrimSuffix(strings.TrimSuffix(name, "*"), "."))
	return slices.Contains(systemRoots, clean) || hasWord("/ ~ /home .. ../.. /var", clean)
}
