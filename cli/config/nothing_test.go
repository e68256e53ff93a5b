package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// emptyLists are the settings that accept an empty list, with its meaning, which is never "all". A list that is left
// out has its default.
var emptyLists = map[string]string{
	"agents.x.allow":           "nothing may be reached without a question",
	"agents.x.env":             "no variables",
	"agents.x.home":            "no files",
	"agents.x.secrets":         "no secrets",
	"audit.capture":            "rows hold hashes alone",
	"audit.push":               "checkpoints are pushed nowhere",
	"containers.gpus":          "no graphics processors",
	"egress.allow":             "nothing may be reached",
	"egress.deny":              "nothing is denied beside what is not allowed",
	"egress.local":             "no ports of this machine",
	"egress.networks":          "no private networks",
	"events.webhook_kinds":     "nothing is posted, which a server with a webhook refuses",
	"host.allowed":             "no commands",
	"host.blocked":             "nothing is blocked beside what is not allowed",
	"host.environment":         "no variables",
	"host.read":                "no directories",
	"host.write":               "no directories",
	"http.hosts":               "no names beside the address",
	"http.oauth.scopes":        "no scope beside audience and namespaces",
	"http.origins":             "no pages of other origins",
	"http.proxies":             "no proxy is believed",
	"kubernetes.node_selector": "any node of the cluster: where, and not what",
	"validate.rules_off":       "all rules are on",
	"vault":                    "no secrets",
	"web.allow":                "nothing may be reached",
	"runtimes.x.compile":       "nothing is compiled",
	"runtimes.x.check":         "syntax is not checked",
	"runtimes.x.kernel":        "there are no sessions",
}

// TestNothingIsNotAll sets each setting to empty values and values of other types: all are refused, except for the
// lists in emptyLists. It covers new settings, too; a new list needs an entry there.
func TestNothingIsNotAll(t *testing.T) {
	load := func(text string) (Config, error) {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{File: file, Env: []string{"HOME=" + t.TempDir()}})
	}
	var keys []string
	for _, s := range newLoader(2, nil).settings {
		keys = append(keys, s.key)
	}
	for _, e := range Reference() {
		if key := strings.ReplaceAll(e.Key, "NAME", "x"); key != e.Key {
			keys = append(keys, strings.Replace(key, "certificates.x", "certificates.cn:x", 1))
		}
	}
	tried := 0
	for _, key := range keys {
		for _, value := range []string{"", "null", `""`, `" "`, "{}", "[]", `[""]`, "[null]", "[[]]"} {
			text := ""
			for depth, name := range strings.Split(key, ".") {
				text += strings.Repeat("  ", depth) + `"` + name + `":`
				if depth < strings.Count(key, ".") {
					text += "\n"
				}
			}
			tried++
			_, err := load(text + " " + value + "\n")
			if value == "[]" && emptyLists[key] != "" {
				continue
			}
			if err == nil {
				t.Errorf("%s: %q is taken", key, value)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d were tried", tried)
	}
	c, err := load("web: {allow: []}\nevents: {webhook_kinds: []}\n")
	if err != nil || len(c.Web.Allow)+len(c.Events.WebhookKinds) > 0 {
		t.Errorf("an empty list became %q and %q, %v", c.Web.Allow, c.Events.WebhookKinds, err)
	}
}

// TestEmptyVariable checks that an empty environment variable counts as unset, as in POSIX programs.
func TestEmptyVariable(t *testing.T) {
	home := "HOME=" + t.TempDir()
	without, err := Load(Options{Env: []string{home}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range newLoader(2, nil).settings {
		if s.env == "" {
			continue
		}
		with, err := Load(Options{Env: []string{home, "SANDBOXMCP_" + s.env + "="}})
		if diff := cmp.Diff(without, with, cmpopts.IgnoreUnexported(Config{}, Audit{})); err != nil || diff != "" {
			t.Errorf("SANDBOXMCP_%s: %v, %s", s.env, err, diff)
		}
	}
}
