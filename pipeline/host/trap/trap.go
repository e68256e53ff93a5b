// Package trap knows the files that a machine later runs or obeys, so that writing them is running code on it.
package trap

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Names are the files that the host runs or obeys by itself. Hidden files are included as a kind: programs keep their
// configuration there, and there is no list of all programs. The other names are specific. Directories that many
// programs share are listed separately: the name .config does not cover .config/autostart. *~1 are the short names of
// FAT and NTFS, which may name a hidden file. See [Match] for the syntax.
var Names = strings.Fields(`.* .config/* .local/* .local/share/* .cargo/* *~[1-9]*
	*mcp.json* *mcp[_-]config.json* *mcp[_-]settings.json* *mcp[_-]servers.json* crush.json* opencode.json* *.code-workspace
	lefthook.y*ml mise.toml venv/bin venv/lib* pyvenv.cfg sitecustomize.py usercustomize.py *.pth crontab authorized_keys*
	hooks/applypatch-msg hooks/pre-applypatch hooks/post-applypatch hooks/pre-commit hooks/pre-merge-commit hooks/prepare-commit-msg hooks/commit-msg
	hooks/post-commit hooks/pre-rebase hooks/post-checkout hooks/post-merge hooks/pre-push hooks/pre-receive hooks/update hooks/proc-receive
	hooks/post-receive hooks/post-update hooks/reference-transaction hooks/push-to-checkout hooks/pre-auto-gc hooks/post-rewrite
	hooks/sendemail-validate hooks/fsmonitor-watchman hooks/post-index-change`)

// Places are directories of the machine: files there run as root, or as any user.
var Places = []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/opt", "/var/spool/cron", "/var/spool/at",
	"/var/spool/anacron", "/var/lib/systemd", "/run", "/var/run", "/dev", "/snap"}

// harmless are hidden or private-looking names that are meant to be read and written.
var harmless = []string{".env.example", ".env.sample", ".env.template", ".env.dist", ".gitignore", ".gitkeep", ".dockerignore",
	".editorconfig"}

// Match returns the first of names that a path contains, or "". Each is one name, or several nested ones; * matches
// any part of a name. A match that ends within known does not count.
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

// Fold returns a name as compared by file systems that ignore case, and trailing dots, spaces and streams.
func Fold(word string) string {
	word = strings.ToLower(word)
	if at := strings.IndexByte(word, ':'); at > 0 {
		word = word[:at]
	}
	return cmp.Or(strings.TrimRight(word, ". "), word)
}
