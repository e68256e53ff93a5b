package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordSettings(t *testing.T) {
	_, env := writeConfig(t, `audit: {capture: output, rotate_days: 90, push: [/mnt/kept.note, "git:/srv/kept.git#main"]}
redact: {unknown: mask}
events: {webhook: "https://hook.example.com/x", webhook_secret: ops/HOOK, webhook_kinds: [egress.denied]}
vault: [keyring]
`)
	c, err := Load(Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	want := []any{Audit{alwaysTrue{}, []string{"output"}, 90, 0, []string{"/mnt/kept.note", "git:/srv/kept.git#main"}}, Redact{"mask"},
		Events{"https://hook.example.com/x", "ops/HOOK", []string{"egress.denied"}}, []string{"keyring"}}
	if diff := cmp.Diff(want, []any{c.Audit, c.Redact, c.Events, c.Vault}); diff != "" {
		t.Error(diff)
	}
}

// TestRecordForPeople checks that the printed settings can be pasted into a file.
func TestRecordForPeople(t *testing.T) {
	_, env := writeConfig(t, "audit: {capture: none}\nevents: {webhook: none, webhook_secret: none}\nredact: {unknown: off}\n")
	if c, err := Load(Options{Env: env}); err != nil || c.Audit.Capture != nil || c.Events.Webhook != "" || c.Redact.Unknown != "off" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestAddressWithoutToken checks that no query of an address, which may hold a token, is printed.
func TestAddressWithoutToken(t *testing.T) {
	for text, want := range map[string]string{
		"https://hook.example.com/x?token=hunter2": "https://hook.example.com/x?...",
		"https://hook.example.com/a%2Fb#hunter2":   "https://hook.example.com/a%2Fb?...",
		"https://hook.example.com:8443/x":          "https://hook.example.com:8443/x",
		"none":                                     "none",
	} {
		_, env := writeConfig(t, "events: {webhook: '"+text+"'}\n")
		c, err := Load(Options{Env: env})
		if err != nil || c.Events.Webhook != strings.TrimPrefix(text, "none") {
			t.Errorf("%s: %q, %v", text, c.Events.Webhook, err)
		}
		for _, s := range c.Origins() {
			if s.Key == "events.webhook" && strings.Trim(s.Value, `"`) != want {
				t.Errorf("%s: shown as %s", text, s.Value)
			}
		}
	}
}

func TestRecordRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"audit: {capture: everything}", `audit.capture: "everything" is not known`},
		{"audit: {capture: [code, code]}", "code is listed twice"},
		{"audit: {enabled: false}", "can't be switched off"},
		{"audit: [code]", "expected keys and values"},
		{"events: {webhook: hook.example.com}", "is not an address"},
		{"events: {webhook: 'https://me:pass@hook.example.com'}", "can't contain a name and password"},
		{"events: {webhook_secret: hunter2hunter2}", "write NAMESPACE/KEY"},
		{"events: {webhook: 'grpc://localhost:4317'}", "grpc://localhost:4317 is not an address"},
		{"events: {webhook: 'ftp://me:pass@hook.example.com/x?token=hunter2'}", "ftp://hook.example.com/x?... is not an address"},
		{"events: {webhook: 'hook.example.com/x?token=hunter2'}", "is not an address"},
		{"events: {webhook: \"https://hook.example.com/%zzhunter2\"}", "is not an address"},
		{"events: {webhook: hunter2}", "is not an address"},
		{"web: {searxng: 'ftp://me:pass@searx.example.com/x?token=hunter2'}",
			"ftp://searx.example.com/x?... is not an address: write one like https://searx"},
		{"web: {searxng: 'https://me:pass@searx.example.com'}", "can't contain a name and password"},
		{"redact: {unknown: hide}", `"hide" is not known`},
	} {
		_, env := writeConfig(t, tt.text+"\n")
		_, err := Load(Options{Env: env})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "me:pass") {
			t.Errorf("%s: got %v, want %q", tt.text, err, tt.want)
		}
	}
}
