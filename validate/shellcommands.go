package validate

import (
	"regexp"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// commandRule is a rule for programs by their names, if their arguments, with blanks between them, match.
type commandRule struct {
	rule, programs string
	args           func() *regexp.Regexp // nil for any
}

// commandRules are the rules that a command's words alone tell; the first that applies counts.
var commandRules = sync.OnceValue(func() []commandRule {
	return []commandRule{
		{"shell-kill-all", "killall5", nil},
		{"shell-kill-all", "kill", lazy.Regexp(`^[01]$|^(-[sn] \S+|-[^snlL]|-\S{2,}) (.* )?(-1|0|1)( |$)`)}, // -9 -1, -- -1, -s KILL 1
		{"shell-sudo", "su", nil},
		{"shell-schedule", "at batch", nil},
		{"shell-schedule", "crontab", lazy.Regexp(`^((-[^l ]*|[^- ]\S*)( |$))*$`)}, // not -l, which lists
		{"shell-history", "history", lazy.Regexp(`(^| )-\w*[cd]`)},
		{"shell-history", "unset", lazy.Regexp(`\bHIST(FILE|SIZE)\b`)},
		{"shell-history", "set", lazy.Regexp(`\+o history\b`)},
		{"shell-format", "mkfs mke2fs mkswap fdisk sfdisk parted mkdosfs", nil},
		{"shell-reverse-shell", "nc ncat netcat", lazy.Regexp(`(^| )(-\w*[ec]|--(sh-)?exec)`)},
		{"shell-reverse-shell", "socat", lazy.Regexp(`(?i)(^| )(EXEC|SYSTEM):`)},
		{"shell-network", "curl wget ssh scp sftp ftp telnet nc ncat netcat", nil},
	}
})

// sourceRules are those for commands whose output becomes code.
var sourceRules = sync.OnceValue(func() []commandRule {
	return []commandRule{
		{"shell-remote-code", "curl wget fetch lynx aria2c ftp", nil},
		{"shell-encoded-code", "base64 base32", lazy.Regexp(`(^| )(-\w*[dD]|--decode)`)},
		{"shell-encoded-code", "xxd", lazy.Regexp(`(^| )-\w*r`)},
		{"shell-encoded-code", "openssl", lazy.Regexp(`^(enc|base64) (.* )?-\w*d`)},
	}
})

// hasWord reports whether a word is one of several, which are written with blanks between them.
func hasWord(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}

// rule returns the first rule that applies to a command, or "". mkfs.ext4 is mkfs.
func (c shellCommand) rule(rules []commandRule) string {
	program := c.program
	if strings.HasPrefix(program, "mkfs.") {
		program = "mkfs"
	}
	for _, r := range rules {
		if hasWord(r.programs, program) && (r.args == nil || r.args().MatchString(strings.Join(c.args, " "))) {
			return r.rule
		}
	}
	return ""
}
