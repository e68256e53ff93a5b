package outbound

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/vault"
)

// gitUsers are the user names for tokens of these names. Most services check only the token. A user name in a URL
// takes precedence.
var gitUsers = map[string]string{
	"GITHUB_TOKEN":            "x-access-token",
	"GH_TOKEN":                "x-access-token",
	"GH_ENTERPRISE_TOKEN":     "x-access-token",
	"GITHUB_ENTERPRISE_TOKEN": "x-access-token",
	"GITLAB_TOKEN":            "oauth2",
	"GITLAB_ACCESS_TOKEN":     "oauth2",
	"CI_JOB_TOKEN":            "gitlab-ci-token",
	"BITBUCKET_TOKEN":         "x-token-auth",
	"BITBUCKET_ACCESS_TOKEN":  "x-token-auth",
	"HF_TOKEN":                anyUser,
	"HUGGING_FACE_HUB_TOKEN":  anyUser,
	"GITEA_TOKEN":             anyUser,
	"FORGEJO_TOKEN":           anyUser,
	"CODEBERG_TOKEN":          anyUser,
	"AZURE_DEVOPS_EXT_PAT":    anyUser,
}

// anyUser is the user name for services that ignore it.
const anyUser = "git"

// GitEnv returns variables that make git use the bound secrets that were leased, in addition to env, the program's
// own: settings in env stay, and nothing is returned if git could not read them.
//
// Git gets the placeholders from a credential helper, which it calls only when a host requests authentication: other
// hosts, including targets of redirects, receive nothing, and submodules and LFS use it too. If every request must
// carry the secret, it is sent without a request, in a header for that host. Git then also sends the header, with the
// placeholder, to targets of redirects of that host; there it is worthless.
//
// In *.example.com, git's star matches one label: a.b.example.com must be bound by its own name. Of several secrets
// for one host, those with the name of a known token come first.
func (o *Session) GitEnv(env []string) []string {
	if !o.HasRoute() {
		return nil
	}
	count, ok := gitCount(env)
	settings := gitSettings(o.leases().Bound())
	if !ok || len(settings) == 0 {
		return nil
	}
	var more []string
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "GIT_TERMINAL_PROMPT=") }) {
		more = append(more, "GIT_TERMINAL_PROMPT=0") // nobody could answer a prompt
	}
	for i, s := range settings {
		n := strconv.Itoa(count + i)
		more = append(more, "GIT_CONFIG_KEY_"+n+"="+s.key, "GIT_CONFIG_VALUE_"+n+"="+s.value)
	}
	return append(more, "GIT_CONFIG_COUNT="+strconv.Itoa(count+len(settings)))
}

// gitCount returns the number of settings in env. The last variable of a name counts.
func gitCount(env []string) (count int, ok bool) {
	for _, kv := range slices.Backward(env) {
		if text, is := strings.CutPrefix(kv, "GIT_CONFIG_COUNT="); is && text != "" {
			count, err := strconv.Atoi(text)
			return count, err == nil && count >= 0
		}
	}
	return 0, true
}

type gitSetting struct{ key, value string }

func gitSettings(bound []vault.Bound) (all []gitSetting) {
	bound = slices.Clone(bound)
	slices.SortStableFunc(bound, func(a, b vault.Bound) int { return gitRank(a.Name) - gitRank(b.Name) })
	seen := map[string]bool{}
	for _, b := range bound {
		user := cmp.Or(gitUsers[b.Name], anyUser)
		for _, host := range b.Hosts {
			for _, url := range gitURLs(host) {
				if seen[url] {
					continue
				}
				seen[url] = true
				all = append(all,
					gitSetting{"credential." + url + ".username", user},
					gitSetting{"credential." + url + ".helper", `!f() { test "$1" != get || echo password=` + b.Placeholder + `; }; f`})
				if b.Require {
					basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + b.Placeholder))
					all = append(all, gitSetting{"http." + url + ".extraHeader", "Authorization: Basic " + basic})
				}
			}
		}
	}
	return all
}

func gitRank(name string) int {
	if gitUsers[name] != "" {
		return 0
	}
	return 1
}

// gitURLs returns git's URLs for the hosts of this pattern that may receive the secret: see names.
func gitURLs(pattern string) []string {
	name, port, named := strings.Cut(strings.ToLower(pattern), ":")
	name = strings.TrimSuffix(name, ".")
	switch {
	case !named, port == "443":
		return []string{"https://" + name}
	case port == "8443":
		return []string{"https://" + name + ":8443"}
	case port == "80":
		return []string{"http://" + name}
	}
	return []string{"https://" + name + ":" + port, "http://" + name + ":" + port}
}
