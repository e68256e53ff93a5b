package validate

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

const (
	maxNested  = 4        // maximum depth of nested sh -c 'sh -c ...'
	maxWord    = 16 << 10 // bytes of a text that is inspected
	maxHits    = 1000     // of one program; more add nothing
	incomplete = "there is too much in it"
)

// matchRules returns the rules that apply to calls, and to the commands of a shell in them.
func matchRules(language string, calls []call, nested int) (f findings) {
	for _, c := range calls {
		for _, p := range rulesTable().patterns[language][c.Path] {
			texts, holds := p.matches(c, calls)
			text := strings.Join(texts, " ")
			switch {
			case !holds:
			case p.rule.Severity != command:
				f.Hits = append(f.Hits, ruleHit{p.rule.Name, c.At})
			case nested < maxNested && len(text) <= maxWord:
				tree, _ := parseShell(text)
				for _, h := range matchRules(Shell, shellCalls(tree), nested+1).Hits {
					f.Hits = append(f.Hits, ruleHit{h.Rule, c.At})
				}
			}
		}
		if len(f.Hits) > maxHits {
			f.Unread = incomplete
			return f
		}
	}
	return f
}

// matches reports whether all conditions hold, and returns the values of the last one.
func (p pattern) matches(c call, all []call) (values []string, holds bool) {
	for _, cond := range p.conditions {
		values = nil
		for _, key := range cond.keys {
			values = append(values, c.conditionValues(key, all)...)
		}
		if slices.ContainsFunc(values, cond.matchesValue) == cond.not {
			return values, false
		}
	}
	return values, true
}

func (c condition) matchesValue(value string) bool {
	switch c.kind {
	case "@system":
		return isSystemFile(value)
	case "@disk":
		return diskDevice().MatchString(value)
	case "@all":
		return namesEverything(value)
	}
	return c.matches().MatchString(value)
}

// hasWord reports whether word is in a list separated by blanks.
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
	// ordinaryFiles matches the system files that ordinary programs write to.
	ordinaryFiles = lazy.Regexp(`^(/dev/(null|stdout|stderr|stdin|tty|shm|shm/.*|fd|fd/.*|mqueue/.*|pts/.*|tcp/.*|udp/.*)|/proc/self/(fd/.*|oom_score_adj|comm))$`)
	// privateFiles matches the settings of a person's other programs.
	privateFiles = lazy.Regexp(`^(~\w*|/root|/home/[^/]+)/\.(ssh|aws|gnupg|kube|docker|bashrc|bash_profile|bash_login|profile|zshrc|zprofile|` +
		`gitconfig|netrc|npmrc|pypirc|config/autostart|config/systemd|local/bin)(/|$)`)
	diskDevice = lazy.Regexp(`^/dev/((sd|hd|vd|xvd)[a-z*?]|nvme[0-9]|mmcblk|disk[0-9/]|mapper/|mem$|kmem$|loop[0-9]|dm-)`)
)

// isSystemFile reports whether a path belongs to the system, or to a user's settings; "~" is a home.
func isSystemFile(name string) bool {
	if name == "" || ordinaryFiles().MatchString(path.Clean(name)) {
		return false
	}
	name = path.Clean(name)
	return privateFiles().MatchString(name) || slices.ContainsFunc(systemRoots, func(root string) bool {
		return paths.Within(name, root)
	})
}

// namesEverything reports whether a path or a shell's pattern names nearly all files.
func namesEverything(name string) bool {
	if name == "" {
		return false
	}
	clean := path.Clean(strings.TrimSuffix(strings.TrimSuffix(name, "*"), "."))
	return slices.Contains(systemRoots, clean) || hasWord("/ ~ /home .. ../.. /var", clean)
}
