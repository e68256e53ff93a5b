// Package trap knows which files of a machine are run or obeyed by it later, so that whoever writes them runs code on it.
package trap

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Names are what the host runs, or takes commands from, without being told to. What is hidden is that by its kind:
// programs keep there what they obey, and there is no list of all programs. The others have names that say what they
// are. Of directories in which many programs have theirs, each is one of its own: who names .config does not name
// .config/autostart. *~1 is how FAT and NTFS call a file besides, which may be a hidden one. See [Match] for how they
// are written.
var Names = strings.Fields(`.* .config/* .local/* .local/share/* .cargo/* *~[1-9]*
	*mcp.json* *mcp[_-]config.json* *mcp[_-]settings.json* *mcp[_-]servers.json* crush.json* opencode.json* *.code-workspace
	lefthook.y*ml mise.toml venv/bin venv/lib* pyvenv.cfg sitecustomize.py usercustomize.py *.pth crontab authorized_keys*
	hooks/applypatch-msg hooks/pre-applypatch hooks/post-applypatch hooks/pre-commit hooks/pre-merge-commit hooks/prepare-commit-msg hooks/commit-msg
	hooks/post-commit hooks/pre-rebase hooks/post-checkout hooks/post-merge hooks/pre-push hooks/pre-receive hooks/update hooks/proc-receive
	hooks/post-receive hooks/post-update hooks/reference-transaction hooks/push-to-checkout hooks/pre-auto-gc hooks/post-rewrite
	hooks/sendemail-validate hooks/fsmonitor-watchman hooks/post-index-change`)

// Places are the machine's own: what is written there runs as root, or as everybody.
var Places = []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/opt", "/var/spool/cron", "/var/spool/at", "/var/spool/anacron", "/var/lib/systemd", "/run", "/var/run", "/dev", "/snap"}

// harmless look like private names, or are hidden, and are made to be read and written.
var harmless = []string{".env.example", ".env.sample", ".env.template", ".env.dist", ".gitignore", ".gitkeep", ".dockerignore", ".editorconfig"}

// Match returns what in a path is the first of names, "" if there is nothing. Each is one name, or several of
// directories in each other; * is any part of a name. A name that ends within what is known counts for nothing.
func Match(name, known string, names []string) string {
	words := strings.Split(strings.Trim(name, "/"), "/")
	from := len(strings.Split(strings.Trim(known, "/"), "/"))
	if known == "/" {
		from = 0
	}
	for i := range words {
		words[i] = Fold(words[i])
	}
	for end := from + 1; end <= len(words); end++ {
		if slices.Contains(harmless, words[end-1]) {
			continue
		}
		for _, n := range names {
			if depth := strings.Count(n, "/") + 1; depth <= end {
				what := strings.Join(words[end-depth:end], "/")
				if ok, _ := path.Match(n, what); ok {
					return what
				}
			}
		}
	}
	return ""
}

// Fold returns a name as file systems compare it that ignore case, and dots, spaces and streams at a name's end.
func Fold(word string) string {
	word = strings.ToLower(word)
	if at := strings.IndexByte(word, ':'); at > 0 {
		word = word[:at]
	}
	return cmp.Or(strings.TrimRight(word, ". "), word)
}
