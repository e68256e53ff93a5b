package files

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// privateNames are files and directories that hold credentials wherever they are, or that tools look for them in. Each
// is one name, or several of directories in each other; * is any part of a name.
var privateNames = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".config/hub", ".config/glab-cli", ".config/doctl", ".config/rclone",
	".config/op", ".config/sops", ".config/git/credentials", ".docker/config.json", ".docker/contexts", ".netrc", "_netrc", ".git-credentials",
	".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".vault-token", ".password-store", ".terraform.d", ".cargo/credentials*", ".gem/credentials",
	".m2/settings*.xml", ".gradle/gradle.properties", ".local/share/keyrings", ".local/share/kwalletd",
	".mozilla", ".thunderbird", ".config/google-chrome*", ".config/chromium", ".config/bravesoftware", ".config/microsoft-edge*", ".config/vivaldi", ".config/opera*", "snap/firefox", "snap/chromium",
	".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".config/github-copilot", ".gemini/oauth_creds.json", ".config/anthropic",
	".cline/data", ".config/goose/secrets.yaml", ".copilot/config.json",
	".env", ".env.*", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
}

// harmless look like private names, or are hidden, and are made to be read and written.
var harmless = []string{".env.example", ".env.sample", ".env.template", ".env.dist", ".gitignore", ".gitkeep", ".dockerignore", ".editorconfig"}

// privateAtHome are private in a home directory, and ordinary files elsewhere.
var privateAtHome = []string{".npmrc", ".yarnrc.yml", ".config/pip", ".pip", ".condarc", ".s3cfg", ".boto", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".config/gcloud", ".mozilla", ".password-store"}

// privateOfSystem are those of the whole machine.
var privateOfSystem = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/krb5.keytab", "/etc/kubernetes", "/etc/NetworkManager/system-connections", "/var/run/secrets", "/run/secrets"}

// trapNames are what the host runs, or takes commands from, without being told to. What is hidden is that by its kind:
// programs keep there what they obey, and there is no list of all programs. The others have names that say what they
// are. Of directories in which many programs have theirs, each is one of its own: who names .config does not name
// .config/autostart. *~1 is how FAT and NTFS call a file besides, which may be a hidden one. See privateNames for how
// they are written.
var trapNames = strings.Fields(`.* .config/* .local/* .local/share/* .cargo/* *~[1-9]*
	*mcp.json* *mcp[_-]config.json* *mcp[_-]settings.json* *mcp[_-]servers.json* crush.json* *.code-workspace
	lefthook.y*ml mise.toml venv/bin venv/lib* pyvenv.cfg sitecustomize.py usercustomize.py *.pth crontab authorized_keys*
	hooks/applypatch-msg hooks/pre-applypatch hooks/post-applypatch hooks/pre-commit hooks/pre-merge-commit hooks/prepare-commit-msg hooks/commit-msg
	hooks/post-commit hooks/pre-rebase hooks/post-checkout hooks/post-merge hooks/pre-push hooks/pre-receive hooks/update hooks/proc-receive
	hooks/post-receive hooks/post-update hooks/reference-transaction hooks/push-to-checkout hooks/pre-auto-gc hooks/post-rewrite
	hooks/sendemail-validate hooks/fsmonitor-watchman hooks/post-index-change`)

// trapPlaces are the machine's own: what is written there runs as root, or as everybody.
var trapPlaces = []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/opt", "/var/spool/cron", "/var/spool/at", "/var/spool/anacron", "/var/lib/systemd", "/run", "/var/run", "/dev", "/snap"}

// named returns what in the spot's path is the first of names, as far as the root's own path does not have it; "" if
// there is nothing.
func (s spot) named(names []string) string {
	if what := inside(s.asked, s.root.Path, names); what != "" {
		return what
	}
	known := s.base
	if s.base != s.root.Path {
		known = "/" // that a link leads there names nothing
	}
	return inside(s.real, known, names)
}

// inside looks for names in a path. A name that ends within what is known counts for nothing.
func inside(name, known string, names []string) string {
	words := strings.Split(strings.Trim(name, "/"), "/")
	from := len(strings.Split(strings.Trim(known, "/"), "/"))
	if known == "/" {
		from = 0
	}
	for i := range words {
		words[i] = foldName(words[i])
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

// foldName returns a name as file systems compare it that ignore case, and dots, spaces and streams at a name's end.
func foldName(word string) string {
	word = strings.ToLower(word)
	if at := strings.IndexByte(word, ':'); at > 0 {
		word = word[:at]
	}
	return cmp.Or(strings.TrimRight(word, ". "), word)
}

// inside returns which of these places the spot is in, unless the root is in it, too.
func (s spot) inside(places []string) string {
	for _, p := range places {
		for _, name := range []string{s.asked, s.real} {
			if paths.Within(name, p) && !paths.Within(s.root.Path, p) {
				return p
			}
		}
	}
	return ""
}
