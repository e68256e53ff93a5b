package files

import (
	"path"
	"slices"
	"strings"
)

// privateNames are files and folders that hold credentials wherever they are, or that tools look for them in. Each is
// one name, or several of folders in each other; * is any part of a name.
var privateNames = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".config/hub", ".config/glab-cli", ".config/doctl", ".config/rclone",
	".config/op", ".config/sops", ".config/git/credentials", ".docker/config.json", ".docker/contexts", ".netrc", "_netrc", ".git-credentials",
	".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".vault-token", ".password-store", ".terraform.d", ".cargo/credentials*", ".gem/credentials",
	".m2/settings*.xml", ".gradle/gradle.properties", ".local/share/keyrings", ".local/share/kwalletd",
	".mozilla", ".thunderbird", ".config/google-chrome*", ".config/chromium", ".config/bravesoftware", ".config/microsoft-edge*", ".config/vivaldi", ".config/opera*", "snap/firefox", "snap/chromium",
	".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".config/github-copilot", ".gemini/oauth_creds.json", ".config/anthropic",
	".env", ".env.*", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
}

// templates look like private names and are made to be read.
var templates = []string{".env.example", ".env.sample", ".env.template", ".env.dist"}

// privateAtHome are private in a home folder, and ordinary files elsewhere.
var privateAtHome = []string{".npmrc", ".yarnrc.yml", ".config/pip", ".pip", ".condarc", ".s3cfg", ".boto", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".config/gcloud", ".mozilla", ".password-store"}

// privateOfSystem are those of the whole machine.
var privateOfSystem = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/krb5.keytab", "/etc/kubernetes", "/etc/NetworkManager/system-connections", "/var/run/secrets", "/run/secrets"}

// trapNames are what tools of the host run, or take commands from, without being told to, wherever it is: git, shells,
// desktops, editors, language tools, and the agents' own clients. See privateNames for how they are written.
var trapNames = []string{
	".git", "git~1", ".gitconfig", ".config/git", ".githooks", ".husky", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml", ".hg", ".hgrc", ".bzr", ".svn",
	".bashrc", ".bash_*", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc",
	".config/fish", ".xprofile", ".xinitrc", ".xsession*", ".xserverrc", ".pam_environment", ".config/environment.d", ".config/autostart*", ".config/systemd", ".config/upstart",
	".config/plasma-workspace", ".config/sway", ".config/i3", ".config/hypr", ".local/share/systemd", ".local/share/applications", ".local/share/dbus-1", ".local/share/flatpak",
	".local/bin", ".local/lib", ".cargo/bin", ".cargo/config*", ".rustup",
	".vscode", ".vscode-server", ".idea", ".zed", ".fleet", ".devcontainer", ".vim", ".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".dir-locals.el",
	".config/code", ".config/zed", ".config/helix", ".tmux.conf", ".config/tmux", ".screenrc", ".gdbinit", ".lldbinit", ".config/kitty", ".config/alacritty", ".config/wezterm",
	".envrc", ".direnvrc", ".config/direnv", "mise.toml", ".mise.toml", ".config/mise", ".tool-versions", ".asdfrc",
	".venv", "venv/bin", "venv/lib*", "pyvenv.cfg", "sitecustomize.py", "usercustomize.py", "*.pth", ".pythonrc*", ".ipython", ".jupyter",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "node_modules/.bin", ".rprofile", ".renviron", ".irbrc", ".pryrc", ".psqlrc", ".sqliterc", ".my.cnf",
	".curlrc", ".wgetrc", ".mailcap", ".forward", ".procmailrc", ".lesskey", ".lessfilter",
	".mcp.json", ".claude", ".claude.json", ".cursor", ".codex", ".gemini", ".config/claude", ".config/opencode", "opencode.json", ".aider.conf.yml", ".config/goose", ".continue", ".windsurf",
	".crontab", "crontab", "authorized_keys*",
}

// gitHooks are hooks of git in a folder of any other name than .git, such as that of a bare repository.
var gitHooks = []string{"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update", "reference-transaction",
	"push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change"}

// trapPlaces are the machine's own: what is written there runs as root, or as everybody.
var trapPlaces = []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/opt", "/var/spool/cron", "/var/spool/at", "/var/spool/anacron", "/var/lib/systemd", "/run", "/var/run", "/dev", "/snap"}

// named returns the first of names in the spot's path, as far as the root's own path does not have it; "" if there is none.
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
		words[i] = plain(words[i])
	}
	for end := from + 1; end <= len(words); end++ {
		if slices.Contains(templates, words[end-1]) {
			continue
		}
		if end > 1 && words[end-2] == "hooks" && slices.Contains(gitHooks, words[end-1]) && slices.Contains(names, ".githooks") {
			return "hooks/" + words[end-1]
		}
		for _, n := range names {
			if depth := strings.Count(n, "/") + 1; depth <= end && matches(n, strings.Join(words[end-depth:end], "/")) {
				return n
			}
		}
	}
	return ""
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// plain is a name as file systems may see it that ignore case, and dots, spaces and streams at a name's end.
func plain(word string) string {
	word = strings.ToLower(word)
	if at := strings.IndexByte(word, ':'); at > 0 {
		word = word[:at]
	}
	return strings.TrimRight(word, ". ")
}

// inside returns which of these places the spot is in, unless the root is in it, too.
func (s spot) inside(places []string) string {
	for _, p := range places {
		for _, name := range []string{s.asked, s.real} {
			if within(name, p) && !within(s.root.Path, p) {
				return p
			}
		}
	}
	return ""
}
