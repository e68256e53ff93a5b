package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/hujson"
)

var ours = Server{Name: "sandboxmcp", Command: "/opt/my tools/sandboxmcp", Args: []string{"serve", "--namespace", "a\"b<c>"}}

// value reads a file as the clients do.
func value(t testing.TB, c Client, data []byte) map[string]any {
	t.Helper()
	data = bytes.TrimPrefix(data, bom)
	var v map[string]any
	if c.form != inJSON {
		_, rest, err := tomlRead(data)
		if c.form == inYAML {
			_, rest, err = yamlRead(data)
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, data)
		}
		return rest
	}
	std, err := hujson.Standardize(bytes.Clone(data))
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(std))
		d.UseNumber()
		err = d.Decode(&v)
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
	return v
}

// entryOf returns our entry, and takes it out of v.
func entryOf(c Client, data []byte, v map[string]any) any {
	path := map[form][]string{inTOML: {tables}, inYAML: {extensions}}[c.form]
	if path == nil {
		path = c.place(bytes.TrimPrefix(data, bom), ours.Name)
		path = path[:len(path)-1]
	}
	for _, name := range path {
		v, _ = v[name].(map[string]any)
	}
	e := v[ours.Name]
	delete(v, ours.Name)
	return e
}

// files are what clients' files look like. %c is where the servers are.
var files = map[string]string{
	"empty":            "",
	"white space":      " \n\t\n",
	"empty object":     "{}",
	"with a newline":   "{}\n",
	"spread":           "{\n}\n",
	"room inside":      "{ }",
	"only comments":    "// mine\n/* really */\n",
	"a comment at all": "// no newline at the end",
	"comment inside":   "{\n  // nothing yet\n}\n",
	"comment in line":  "{ /* nothing yet */ }",
	"other keys":       "{\n  \"theme\": \"dark\",\n  \"z\": [1, 2.50, 1e400],\n  \"a\": null\n}\n",
	"minified":         `{"theme":"dark","%c":{"x":{"command":"y"}}}`,
	"empty servers":    "{\n  \"%c\": {}\n}\n",
	"other servers":    "{\n  \"%c\": {\n    \"x\": {\n      \"command\": \"y\"\n    }\n  },\n  \"after\": 1\n}\n",
	"tabs":             "{\n\t\"%c\": {\n\t\t\"x\": {\"command\": \"y\"}\n\t}\n}\n",
	"four spaces":      "{\n    \"%c\": {\n        \"x\": {\"command\": \"y\"}\n    }\n}\n",
	"CRLF":             "{\r\n  \"%c\": {\r\n    \"x\": {}\r\n  }\r\n}\r\n",
	"BOM":              "\ufeff{\n  \"%c\": {\n    \"x\": {}\n  }\n}\n",
	"BOM alone":        "\ufeff",
	"trailing commas":  "{\n  \"%c\": {\n    \"x\": {},\n  },\n}\n",
	"comments": "// head\n{\n  // before\n  \"%c\": { // here\n    \"x\": {\"a\": 1}, // x\n    /* y */ \"y\": {} // last\n" +
		"    // the end\n  }, // after\n  \"font\": 1 /* px */\n  // tail\n}\n// foot\n",
	"trailing and comments": "{\n  \"%c\": {\n    \"x\": {} /* a */, // b\n    // c\n  } // d\n  , // e\n}\n",
	"in line, trailing":     `{"%c": {"x": {}, }, }`,
	"end on the line":       "{\"a\": 1,\n \"%c\": {\"x\": {\n}}}",
	"comma first":           "{\n  \"a\": 1\n, \"%c\": {\n    \"x\": {}\n  , \"y\": {}\n  }\n}\n",
	"strange names":         "{\n  \"\\u0061\": \"{ // }\",\n  \"\": {},\n  \"%c\": {\"\\\"\": {}}\n}",
	"duplicate strangers":   "{\n  \"a\": 1,\n  \"a\": 2,\n  \"%c\": {\"x\": 1, \"x\": 2}\n}\n",
	"deep":                  `{"a": ` + strings.Repeat(`{"b": [`, 500) + strings.Repeat(`]}`, 500) + `}`,
	"large":                 "{\n  \"history\": [" + strings.Repeat("\"a long line of history\",\n", 4_000) + "1],\n  \"%c\": {}\n}\n",
	"unicode":               "{\n  \"ключ\": \"値\u2028😀\",\n  \"%c\": {}\n}\n",
}

var tomlFiles = map[string]string{
	"empty":          "",
	"comments":       "# mine\n",
	"no newline":     "model = \"x\" # why",
	"keys":           "model = \"x\"\n\n[history]\npersistence = \"none\" # never\n",
	"other servers":  "[mcp_servers.x]\ncommand = \"y\"\nargs = [\n  \"a\", # first\n]\n\n# the environment\n[mcp_servers.x.env]\nA = \"1\"\n\n[tui]\nb = 1\n",
	"a header alone": "[mcp_servers]\n",
	"dotted":         "mcp_servers.x.command = \"y\"\n",
	"CRLF":           "a = 1\r\n\r\n[mcp_servers.x]\r\ncommand = 'y'\r\n",
	"BOM":            "\ufeffa = 1\n",
	"long strings":   "a = \"\"\"\n[mcp_servers.sandboxmcp]\n\"\"\"\nb = '''\n# no comment\n'''\n[[profiles]]\nx = {y = 1}\n",
	"blank lines":    "a = 1\n\n\n",
}

var yamlFiles = map[string]string{
	"empty":             "",
	"comments":          "# mine\n",
	"no newline":        "GOOSE_MODE: \"auto\" # why",
	"keys":              "GOOSE_MODEL: x\n\n# the rest\nproviders:\n  anthropic:\n    enabled: true\n",
	"other servers":     "a: 1\nextensions:\n  developer: # builtin\n    bundled: true\n    timeout: 300\n  # off\n  memory:\n    enabled: false\n\n# after\nz: [1, 2]\n",
	"last":              "a: 1\nextensions:\n    x:\n        cmd: y\n        args:\n        - a # first\n        - b\n",
	"no newline at end": "extensions:\n  x:\n    cmd: y",
	"empty servers":     "extensions: {}\nz: 1\n",
	"empty, no newline": "extensions: {}",
	"no servers":        "extensions:\nz: 1\n",
	"none, a comment":   "extensions: # mine\n",
	"CRLF":              "a: 1\r\nextensions:\r\n  x:\r\n    cmd: y\r\nz: 1\r\n",
	"BOM":               "\ufeffa: 1\n",
	"marks":             "---\na: 1\nextensions:\n  x: {cmd: y}\n...\n",
	"texts":             "extensions:\n  x:\n    description: |+\n      # no comment\n\n      extensions:\n    cmd: >-\n      y\n  z: &z\n    cmd: 'it''s'\nb: *z\n",
	"deep comments":     "extensions:\n  x:\n    cmd: y\n    # of x\n  # of nobody\n# of the file\n",
}

func filesOf(c Client) map[string]string {
	switch c.form {
	case inTOML:
		return tomlFiles
	case inYAML:
		return yamlFiles
	}
	all := map[string]string{}
	for name, text := range files {
		all[name] = strings.ReplaceAll(text, "%c", c.container[0])
	}
	return all
}

// TestThereAndBack: written, read, written again, and taken out. Clients that differ in names alone have one file.
func TestThereAndBack(t *testing.T) {
	for _, c := range Clients() {
		for name, text := range filesOf(c) {
			if name != "comments" && !slices.Contains([]string{"zed", "opencode", "codex", "cline", "copilot", "goose"}, c.Name) {
				continue
			}
			t.Run(c.Name+"/"+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
					t.Fatal(err)
				}
				add(t, c, path, ours)
				after := read(t, path)
				v := value(t, c, after)
				e, _ := entryOf(c, after, v).(map[string]any)
				if c.form == inYAML {
					e["command"] = e["cmd"]
				}
				if got := append(texts(e["command"]), texts(e["args"])...); !reflect.DeepEqual(got, append([]string{ours.Command}, ours.Args...)) {
					t.Errorf("it starts %q:\n%.2000s", got, after)
				}
				if stays := strings.Fields(text); len(text) < 10_000 && !inOrder(string(after), stays) {
					t.Errorf("something of the file is lost:\n%s\nbecame\n%s", text, after)
				}
				if strings.Contains(text, "\r\n") && strings.Count(string(after), "\n") != strings.Count(string(after), "\r\n") {
					t.Errorf("line ends are mixed: %q", after)
				}
				again, err := c.Add(path, ours)
				if err != nil || again.Changes() {
					t.Errorf("the second time: %v\n%.2000s", err, again.After)
				}
				// Another way to start it, and back to the first one.
				other := Server{Name: ours.Name, Command: "/x", Args: []string{"serve"}}
				add(t, c, path, other)
				if s, ok, err := c.find(read(t, path), ours.Name); err != nil || !ok || s.Command != "/x" {
					t.Errorf("updated: %+v, %v", s, err)
				}
				if backup := read(t, path+backupSuffix); string(backup) != text {
					t.Errorf("what is kept is not what was: %.200q", backup)
				}
				remove(t, c, path)
				if got := read(t, path); string(got) != text {
					t.Errorf("taken out:\n%.1000q, want\n%.1000q", got, text)
				}
				if exists(path + backupSuffix) {
					t.Error("what is there is kept a second time")
				}
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
					t.Errorf("its mode is %v, %v", info.Mode(), err)
				}
				if gone, err := c.Remove(path, ours.Name); err != nil || gone.Changes() {
					t.Errorf("taken out twice: %v", err)
				}
				left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".sandboxmcp-*"))
				if len(left) != 0 {
					t.Errorf("left are %v", left)
				}
			})
		}
	}
}

// TestRemoveWithoutWhatWasKept: the entry goes, also when other things changed, and what they mean stays.
func TestRemoveWithoutBackup(t *testing.T) {
	for _, c := range Clients() {
		for name, text := range filesOf(c) {
			t.Run(c.Name+"/"+name, func(t *testing.T) {
				after, err := c.added([]byte(text), ours)
				if err != nil {
					t.Fatal(err)
				}
				want := value(t, c, after)
				entryOf(c, after, want)
				out, err := c.removed(after, ours.Name, nil)
				if err != nil {
					t.Fatal(err)
				}
				got := value(t, c, out)
				if key := serversIn[c.form]; key != "" {
					want = otherServers(want, key, ours.Name)
					got = otherServers(got, key, ours.Name)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%.500s\nbecame\n%.500s", after, out)
				}
			})
		}
	}
}

// TestCommentBefore: what follows the entry on its line does not come into the comment of the line before.
func TestCommentBefore(t *testing.T) {
	c, _ := Find("cursor")
	out, err := c.removed([]byte("{\"mcpServers\": {\"x\": 1, // mine\n  \"sandboxmcp\": {}, \"y\": 2\n}}"), "sandboxmcp", nil)
	if want := "{\"mcpServers\": {\"x\": 1, // mine\n   \"y\": 2\n}}"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// TestOthersMeanwhile: what a client or a person has done to the file since stays.
func TestOthersMeanwhile(t *testing.T) {
	c, _ := Find("zed")
	path := filepath.Join(t.TempDir(), "settings.json")
	os.WriteFile(path, []byte("{\n  // mine\n  \"theme\": \"dark\"\n}\n"), 0o600)
	add(t, c, path, ours)
	text := strings.Replace(string(read(t, path)), `"dark"`, `"light", "font": 1`, 1)
	os.WriteFile(path, []byte(text), 0o600)
	remove(t, c, path)
	if got, want := string(read(t, path)), "{\n  // mine\n  \"theme\": \"light\", \"font\": 1\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOwnSettingsStay: what people add to our entry is theirs.
func TestOwnSettingsStay(t *testing.T) {
	for client, text := range map[string]string{
		"cursor":   `{"mcpServers": {"sandboxmcp": {"args": ["serve"], "command": "/old", "env": {"A": "1"}, "disabled": true}}}`,
		"opencode": `{"mcp": {"sandboxmcp": {"type": "local", "command": ["/old"], "enabled": false, "timeout": 5}}}`,
		"cline":    `{"mcpServers": {"sandboxmcp": {"command": "/old", "timeout": 5, "disabled": true}}}`,
		"copilot":  `{"mcpServers": {"sandboxmcp": {"command": "/old", "args": ["serve"], "tools": ["execute_code"]}}}`,
		"goose":    "extensions:\n  sandboxmcp:\n    cmd: /old # mine\n    args:\n    - serve\n    timeout: 5\n    envs:\n      \"A\": \"1\"\n\n  x:\n    enabled: false\n",
		"codex":    "[mcp_servers.sandboxmcp]\ncommand = \"/old\" # mine\nstartup_timeout_sec = 5\n[mcp_servers.sandboxmcp.env]\nA = \"1\"\n[x]\n",
	} {
		c, _ := Find(client)
		out, err := c.added([]byte(text), ours)
		if err != nil {
			t.Fatal(err)
		}
		for _, stays := range []string{`"disabled": true`, `"A": "1"`, `"enabled": false`, `"timeout": 5`, "timeout: 5", `["execute_code"]`, "enabled: false\n", "startup_timeout_sec = 5", "# mine", `A = "1"`} {
			if strings.Contains(text, stays) && !strings.Contains(string(out), stays) {
				t.Errorf("%s: %s is gone:\n%s", client, stays, out)
			}
		}
		if s, _, err := c.find(out, ours.Name); err != nil || s.Command != ours.Command || !reflect.DeepEqual(s.Args, ours.Args) {
			t.Errorf("%s: %+v, %v\n%s", client, s, err, out)
		}
	}
}

// TestRefused: what can't be read with certainty is not touched, and it is said where.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ client, text, want string }{
		{"cursor", "{\"a\": 1,\n  b: 2}", "line 2, column 3"},
		{"cursor", "{\"a\": 1} x", "line 1"},
		{"cursor", "{\"a\": ", "not valid JSON"},
		{"cursor", "[]", "line 1, column 1, where the whole file should be an object"},
		{"cursor", "null", "should be an object"},
		{"cursor", "{\n \"mcpServers\": []}", "line 2, column 16"},
		{"cursor", `{"mcpServers": null}`, `"mcpServers" should be an object`},
		{"cursor", `{"mcpServers": {"sandboxmcp": "x"}}`, "should be an object"},
		{"cursor", "{\"mcpServers\": {},\n\"mcpServers\": {}}", `line 2, column 1, where "mcpServers" is a second time`},
		{"cursor", `{"mcpServers": {"sandboxmcp": {}, "sandboxmcp": {}}}`, "a second time"},
		{"cursor", `{"mcpServers": {"sandboxmcp": {"url": "https://example.com"}}}`, "behind a URL"},
		{"cursor", strings.Repeat("[", 2_000_000), "nested deeper"},
		{"cursor", "\x00\x01binary", "not valid JSON"},
		{"codex", "a = 1\nb = ", "line 2"},
		{"codex", "[a]\n[a]\n", "not valid TOML"},
		{"codex", "mcp_servers = 1\n", "no table"},
		{"codex", "mcp_servers = {x = {command = \"y\"}}\n", "safely"},
		{"codex", "[[mcp_servers]]\n", "no table"},
		{"codex", "mcp_servers.sandboxmcp = {command = \"y\"}\n", "safely"},
		{"goose", "a: [1\nb: 2\n", "not valid YAML"},
		{"goose", "a: 1\na: 2\n", "already defined"},
		{"goose", "a: 1\rb: 2\n", "line ends"},
		{"goose", "[]", "should be a mapping"},
		{"goose", "{a: 1}", "in braces"},
		{"goose", "extensions: {x: {cmd: y}}\n", "in braces"},
		{"goose", "extensions: 1\n", "no mapping"},
		{"goose", "a: 1\n---\nb: 2\n", "more than one document"},
		{"goose", "x: &x {a: {}}\nextensions: *x\n", "alias"},
		{"goose", "extensions:\n  sandboxmcp: {cmd: y}\n", "safely"},
		{"goose", "extensions:\n  sandboxmcp:\n    type: streamable_http\n    uri: https://example.com\n", "behind a URL"},
		{"goose", "a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", "excessive"},
		{"codex", "[mcp_servers.sandboxmcp]\nurl = \"https://example.com\"\n", "behind a URL"},
	} {
		c, _ := Find(tt.client)
		path := filepath.Join(t.TempDir(), "file")
		os.WriteFile(path, []byte(tt.text), 0o600)
		_, err := c.Add(path, ours)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "stays as it is") {
			t.Errorf("%s, %.60q: got %v, want %q", tt.client, tt.text, err, tt.want)
		}
		if got := read(t, path); string(got) != tt.text || exists(path+backupSuffix) {
			t.Errorf("%.60q was touched", tt.text)
		}
	}
}

func TestPlaces(t *testing.T) {
	c, _ := Find("claude-code")
	dir := t.TempDir()
	t.Run("missing directories", func(t *testing.T) {
		path := filepath.Join(dir, "a", "b", "file.json")
		add(t, c, path, ours)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info, err)
		}
		if exists(path + backupSuffix) {
			t.Error("nothing was kept as if it were something")
		}
		remove(t, c, path)
		if exists(path) {
			t.Error("a file that was not there is there")
		}
	})
	t.Run("links", func(t *testing.T) {
		dotfiles := filepath.Join(dir, "dotfiles")
		os.Mkdir(dotfiles, 0o755)
		target := filepath.Join(dotfiles, "claude.json")
		os.WriteFile(target, []byte("{}"), 0o644)
		for _, to := range []string{"dotfiles/claude.json", "dotfiles/none.json"} {
			link := filepath.Join(dir, filepath.Base(to)+".link")
			os.Symlink(to, link)
			add(t, c, link, ours)
			if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
				t.Errorf("the link is %v, %v", info, err)
			}
			if ok, err := c.Has(filepath.Join(dir, to), ours.Name); !ok || err != nil {
				t.Errorf("what it leads to: %v, %v", ok, err)
			}
			remove(t, c, link)
		}
		if got := string(read(t, target)); got != "{}" {
			t.Errorf("got %q", got)
		}
		loop := filepath.Join(dir, "loop")
		os.Symlink("loop", loop)
		if _, err := c.Add(loop, ours); err == nil {
			t.Error("a link to itself")
		}
	})
	t.Run("read-only", func(t *testing.T) {
		path := filepath.Join(dir, "readonly")
		os.WriteFile(path, []byte("{}"), 0o444)
		if _, err := c.Add(path, ours); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no file", func(t *testing.T) {
		if _, err := c.Add(dir, ours); err == nil {
			t.Error("a directory was taken for a file")
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		path := filepath.Join(dir, "busy")
		os.WriteFile(path, []byte("{}"), 0o600)
		change, err := c.Add(path, ours)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(path, []byte(`{"new": 1}`), 0o600)
		if err := change.Apply(); err == nil || string(read(t, path)) != `{"new": 1}` {
			t.Errorf("what came meanwhile is lost: %v", err)
		}
	})
	t.Run("no home", func(t *testing.T) {
		for _, c := range Clients() {
			if path, err := c.UserFile(Place{OS: "linux"}); err == nil {
				t.Errorf("%s: %s", c.Name, path)
			}
		}
	})
	t.Run("directories of their own", func(t *testing.T) {
		home := filepath.Join(dir, "moved")
		env := map[string]string{}
		p := Place{OS: "linux", Home: home, Env: func(name string) string { return env[name] }}
		where := func(client, want string) {
			t.Helper()
			c, _ := Find(client)
			if got, err := c.UserFile(p); err != nil || got != filepath.Join(home, want) {
				t.Errorf("%s with %v: got %s, %v, want %s", client, env, got, err, want)
			}
		}
		for _, step := range []struct{ client, name, value, want string }{
			{"cline", "CLINE_DIR", "a", "a/data/settings/cline_mcp_settings.json"},
			{"cline", "CLINE_DATA_DIR", "b", "b/settings/cline_mcp_settings.json"},
			{"cline", "CLINE_MCP_SETTINGS_PATH", "c/x.json", "c/x.json"},
			{"copilot", "COPILOT_HOME", "d", "d/mcp-config.json"},
			{"goose", "XDG_CONFIG_HOME", "e", "e/goose/config.yaml"},
			{"goose", "GOOSE_PATH_ROOT", "f", "f/config/config.yaml"},
		} {
			env[step.name] = filepath.Join(home, step.value)
			where(step.client, step.want)
		}
		env["GOOSE_PATH_ROOT"], env["XDG_CONFIG_HOME"] = "relative", "relative"
		where("goose", ".config/goose/config.yaml")
		where("lmstudio", ".lmstudio/mcp.json")
		os.MkdirAll(filepath.Join(home, ".cache", "lm-studio"), 0o755)
		where("lmstudio", ".cache/lm-studio/mcp.json")
		os.WriteFile(filepath.Join(home, ".lmstudio-home-pointer"), []byte(filepath.Join(home, "big disk")+"\n"), 0o600)
		where("lmstudio", "big disk/mcp.json")
		// Others may not write into any of these.
		for _, moved := range []string{".cline", "c", "d", "big disk"} {
			if files := Files(p); !slices.Contains(files, filepath.Join(home, moved)) {
				t.Errorf("%s is not among %v", moved, files)
			}
		}
	})
	t.Run("opencode's second name", func(t *testing.T) {
		c, _ := Find("opencode")
		p := Place{OS: "linux", Home: filepath.Join(dir, "h")}
		dir := filepath.Join(p.Home, ".config", "opencode")
		os.MkdirAll(dir, 0o755)
		os.WriteFile(filepath.Join(dir, "opencode.jsonc"), nil, 0o600)
		if got, _ := c.UserFile(p); filepath.Base(got) != "opencode.jsonc" || !c.Installed(p) {
			t.Errorf("got %s", got)
		}
		for text, want := range map[string]string{
			`{"mcp": {"servers": {"x": {"type": "local", "command": ["y"]}}}}`: `{"mcp": {"servers": {"x": {"type": "local", "command": ["y"]}, "s": {"type": "local", "command": ["/c"]}}}}`,
			`{"mcp": {"servers": {"type": "local", "command": ["y"]}}}`:        `{"mcp": {"servers": {"type": "local", "command": ["y"]}, "s": {"type": "local", "command": ["/c"], "enabled": true}}}`,
		} {
			if got, err := c.added([]byte(text), Server{Name: "s", Command: "/c"}); err != nil || string(got) != want {
				t.Errorf("got %s, %v", got, err)
			}
		}
	})
}

func TestPathOn(t *testing.T) {
	for client, want := range map[string][3]string{
		"claude-desktop": {"~/.config/Claude/claude_desktop_config.json", "~/Library/Application Support/Claude/claude_desktop_config.json", `%APPDATA%\Claude\claude_desktop_config.json`},
		"claude-code":    {"~/.claude.json", "~/.claude.json", `~\.claude.json`},
		"cursor":         {"~/.cursor/mcp.json", "~/.cursor/mcp.json", `~\.cursor\mcp.json`},
		"vscode":         {"~/.config/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json", `%APPDATA%\Code\User\mcp.json`},
		"codex":          {"~/.codex/config.toml", "~/.codex/config.toml", `~\.codex\config.toml`},
		"gemini":         {"~/.gemini/settings.json", "~/.gemini/settings.json", `~\.gemini\settings.json`},
		"opencode":       {"~/.config/opencode/opencode.json", "~/.config/opencode/opencode.json", `~\.config\opencode\opencode.json`},
		"windsurf":       {"~/.codeium/windsurf/mcp_config.json", "~/.codeium/windsurf/mcp_config.json", `~\.codeium\windsurf\mcp_config.json`},
		"cline":          {"~/.cline/data/settings/cline_mcp_settings.json", "~/.cline/data/settings/cline_mcp_settings.json", `~\.cline\data\settings\cline_mcp_settings.json`},
		"copilot":        {"~/.copilot/mcp-config.json", "~/.copilot/mcp-config.json", `~\.copilot\mcp-config.json`},
		"goose":          {"~/.config/goose/config.yaml", "~/.config/goose/config.yaml", `%APPDATA%\Block\goose\config\config.yaml`},
		"lmstudio":       {"~/.lmstudio/mcp.json", "~/.lmstudio/mcp.json", `~\.lmstudio\mcp.json`},
		"zed":            {"~/.config/zed/settings.json", "~/.config/zed/settings.json", `%APPDATA%\Zed\settings.json`},
	} {
		c, _ := Find(client)
		if got := [3]string{c.PathOn("linux"), c.PathOn("darwin"), c.PathOn("windows")}; got != want {
			t.Errorf("%s: got %q", client, got)
		}
		if got := value(t, c, []byte(c.Snippet(ours))); entryOf(c, nil, got) == nil {
			t.Errorf("%s: the snippet is %s", client, c.Snippet(ours))
		}
	}
}

// FuzzJSON wants of any file that it is refused, or that it means the same afterwards but for our entry.
func FuzzJSON(f *testing.F) {
	for _, text := range files {
		if len(text) < 10_000 {
			f.Add(strings.ReplaceAll(text, "%c", "mcp"))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, _ := Find("opencode")
		checkRound(t, c, text)
	})
}

// FuzzTOML wants the same of TOML.
func FuzzTOML(f *testing.F) {
	fuzzRound(f, "codex", tomlFiles)
}

// FuzzYAML wants the same of YAML.
func FuzzYAML(f *testing.F) {
	fuzzRound(f, "goose", yamlFiles)
}

// serversIn is where files of a form that is not JSON have the servers.
var serversIn = map[form]string{inTOML: tables, inYAML: extensions}

func fuzzRound(f *testing.F, client string, texts map[string]string) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, _ := Find(client)
		checkRound(t, c, text)
	})
}

func checkRound(t *testing.T, c Client, text string) {
	if _, there, err := c.find([]byte(text), ours.Name); err != nil || there {
		return
	}
	after, err := c.added([]byte(text), ours)
	if err != nil {
		return
	}
	if s, there, err := c.find(after, ours.Name); err != nil || !there || s.Command != ours.Command {
		t.Fatalf("%q became %q: %+v, %v", text, after, s, err)
	}
	if again, err := c.added(after, ours); err != nil || !bytes.Equal(again, after) {
		t.Fatalf("%q, twice: %q, %v", after, again, err)
	}
	out, err := c.removed(after, ours.Name, []byte(text))
	if err != nil {
		t.Fatalf("%q, taken out of: %v", after, err)
	}
	if key := serversIn[c.form]; key != "" {
		if got, want := otherServers(value(t, c, out), key, ""), otherServers(value(t, c, []byte(text)), key, ""); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q became %q", text, out)
		}
		return
	}
	if was, err := parse(bytes.TrimPrefix([]byte(text), bom)); err != nil || was == nil {
		return
	}
	if got, want := minimal(t, out), minimal(t, []byte(text)); got != want {
		t.Fatalf("%q became %q", text, out)
	}
}

func minimal(t testing.TB, data []byte) string {
	out, err := hujson.Minimize(bytes.TrimPrefix(bytes.Clone(data), bom))
	if err != nil {
		t.Fatalf("%v: %q", err, data)
	}
	return string(out)
}

// TestRandomJSON does with files that are made up, in all the ways that people write them, what FuzzJSON does.
func TestRandomJSON(t *testing.T) {
	c, _ := Find("opencode")
	for seed := range int64(3000) {
		r := rand.New(rand.NewSource(seed))
		checkRound(t, c, extra(r)+object2(r, 3, "mcp", "servers", "a")+extra(r))
	}
}

func extra(r *rand.Rand) string {
	return []string{"", "", " ", "\n", "\r\n\t", " // c, }\n", "/* { \" */", "\n  ", "\n\n// x\n"}[r.Intn(9)]
}

func object2(r *rand.Rand, depth int, names ...string) string {
	text := "{" + extra(r)
	n := r.Intn(3)
	for i := range n {
		name := names[r.Intn(len(names))] + []string{"", fmt.Sprint(i)}[r.Intn(2)]
		v := []string{"1", "null", `"t\" // "`, "[1, 2,]", "{}"}[r.Intn(5)]
		if depth > 0 && r.Intn(2) == 0 {
			v = object2(r, depth-1, names...)
		}
		text += extra(r) + fmt.Sprintf("%q", name) + extra(r) + ":" + extra(r) + v + extra(r)
		if i < n-1 || r.Intn(3) == 0 {
			text += "," + extra(r)
		}
	}
	return text + "}"
}

func add(t *testing.T, c Client, path string, s Server) {
	t.Helper()
	change, err := c.Add(path, s)
	if err == nil {
		err = change.Apply()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c Client, path string) {
	t.Helper()
	change, err := c.Remove(path, ours.Name)
	if err == nil {
		err = change.Apply()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// inOrder says whether all words are in a text, one after the other.
func inOrder(text string, words []string) bool {
	for _, w := range words {
		w = strings.Trim(w, "{},")
		_, rest, ok := strings.Cut(text, w)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}
