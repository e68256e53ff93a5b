package files

import (
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/trap"
)

// privateNames are files and directories with credentials, at any path, in the syntax of [trap.Match].
var privateNames = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".config/hub", ".config/glab-cli", ".config/doctl",
	".config/rclone",
	".config/op", ".config/sops", ".config/git/credentials", ".docker/config.json", ".docker/contexts", ".netrc", "_netrc", ".git-credentials",
	".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".vault-token", ".password-store", ".terraform.d", ".cargo/credentials*",
	".gem/credentials",
	".m2/settings*.xml", ".gradle/gradle.properties", ".local/share/keyrings", ".local/share/kwalletd",
	".mozilla", ".thunderbird", ".config/google-chrome*", ".config/chromium", ".config/bravesoftware", ".config/microsoft-edge*",
	".config/vivaldi", ".config/opera*", "snap/firefox", "snap/chromium",
	".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".config/github-copilot", ".gemini/oauth_creds.json", ".config/anthropic",
	".cline/data", ".config/goose/secrets.yaml", ".copilot/config.json",
	".env", ".env.*", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
}

// privateAtHome are private only in a home directory.
var privateAtHome = []string{".npmrc", ".yarnrc.yml", ".config/pip", ".pip", ".condarc", ".s3cfg", ".boto", ".ssh", ".gnupg", ".aws",
	".kube", ".docker", ".config/gcloud", ".mozilla", ".password-store"}

// privateOfSystem are the private files of the machine.
var privateOfSystem = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private",
	"/etc/sudoers", "/etc/sudoers.d",
	"/etc/krb5.keytab", "/etc/kubernetes", "/etc/NetworkManager/system-connections", "/var/run/secrets", "/run/secrets"}

// named returns the first of names in the spot's path, unless the root's own path contains it; "" if there is none.
func (s spot) named(names []string) string {
	if what := trap.Match(s.asked, s.root.Path, names); what != "" {
		return what
	}
	known := s.base
	if s.base != s.root.Path {
		known = "/" // a link to it does not name it
	}
	return trap.Match(s.real, known, names)
}

// inside returns the place that contains the spot, unless it contains the root too.
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
