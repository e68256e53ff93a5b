package setup

import (
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var ours = Server{Name: "sandboxmcp", Command: "/opt/my tools/sandboxmcp", Args: []string{"serve", "--namespace", "a\"b<c>"}}

// meaning decodes a file as the clients do.
func meaning(t testing.TB, c Client, data []byte) map[string]any {
	t.Helper()
	v, err := c.decode(data)
	if err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
	return v
}

// targetAt returns the file at path as a client's.
func targetAt(t testing.TB, c Client, path string) target {
	t.Helper()
	f, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return target{Client: c, file: f}
}

// files are typical files of clients. %c marks the place of the servers.
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

func filesOf(c Client) map[string]string {
	all := map[string]string{}
	for name, text := range files {
		all[name] = strings.ReplaceAll(text, "%c", c.servers)
	}
	return all
}

// TestThereAndBack writes, reads, rewrites and removes an entry. All else in the file keeps its meaning and its
// comments.
func TestThereAndBack(t *testing.T) {
	for _, c := range Clients() {
		for name, text := range filesOf(c) {
			if c.add != "" || c.snippet != "" || name != "comments" && !slices.Contains([]string{"zed", "opencode", "cline", "copilot"}, c.Name) {
				continue
			}
			t.Run(c.Name+"/"+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
					t.Fatal(err)
				}
				add(t, c, path, ours)
				after := read(t, path)
				if s, there, err := targetAt(t, c, path).entry(ours.Name); err != nil || !there || !s.equals(ours) {
					t.Errorf("it starts %q, %v:\n%.2000s", s, err, after)
				}
				if stays := strings.Fields(text); len(text) < 10_000 && !containsInOrder(string(after), stays) {
					t.Errorf("something of the file is lost:\n%s\nbecame\n%s", text, after)
				}
				if again, err := targetAt(t, c, path).plan(ours, false); err != nil || again.hasEffect() {
					t.Errorf("the second time: %v\n%.2000s", err, again.after)
				}
				if backup := read(t, path+backupSuffix); string(backup) != text {
					t.Errorf("what is kept is not what was: %.200q", backup)
				}
				// Another way to start it, and back to the first one.
				other := Server{Name: ours.Name, Command: "/x", Args: []string{"serve"}}
				add(t, c, path, other)
				if s, ok, err := targetAt(t, c, path).entry(ours.Name); err != nil || !ok || !s.equals(other) {
					t.Errorf("updated: %+v, %v", s, err)
				}
				remove(t, c, path)
				keys := c.keys(meaning(t, c, after), ours.Name)
				if got, want := withoutPath(meaning(t, c, read(t, path)), keys), withoutPath(meaning(t, c, []byte("\n"+text)), keys); !reflect.DeepEqual(got, want) {
					t.Errorf("taken out:\n%.1000q, want\n%.1000q", got, want)
				}
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
					t.Errorf("its mode is %v, %v", info.Mode(), err)
				}
				if gone, err := targetAt(t, c, path).plan(ours, true); err != nil || gone.hasEffect() {
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

// TestLayout checks that a new entry is where a person would put it, and that a comment stays with its line.
func TestLayout(t *testing.T) {
	c, _ := FindClient("cursor")
	for before, want := range map[string]string{
		"{}\n": "{\n  \"mcpServers\": {\n    \"s\": {\n      \"command\": \"/c\",\n      \"args\": [\n        \"serve\"\n      ]\n    }\n  }\n}\n",
		"{\n  \"mcpServers\": {\n    \"x\": {} // mine\n  }\n}\n": "{\n  \"mcpServers\": {\n    \"x\": {}, // mine\n" +
			"    \"s\": {\n      \"command\": \"/c\",\n      \"args\": [\n        \"serve\"\n      ]\n    }\n  }\n}\n",
	} {
		if got, err := c.edit([]byte(before), Server{"s", "/c", []string{"serve"}}, false); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

// TestOwnSettingsStay checks that settings that people add to our entry stay.
func TestOwnSettingsStay(t *testing.T) {
	for client, text := range map[string]string{
		"cursor":   `{"mcpServers": {"sandboxmcp": {"args": ["serve"], "command": "/old", "env": {"A": "1"}, "disabled": true}}}`,
		"opencode": `{"mcp": {"sandboxmcp": {"type": "local", "command": ["/old"], "enabled": false, "timeout": 5}}}`,
		"cline":    `{"mcpServers": {"sandboxmcp": {"command": "/old", "timeout": 5, "disabled": true}}}`,
		"copilot":  `{"mcpServers": {"sandboxmcp": {"command": "/old", "args": ["serve"], "tools": ["execute_code"]}}}`,
	} {
		c, _ := FindClient(client)
		out, err := c.edit([]byte(text), ours, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, stays := range []string{`"disabled": true`, `"A": "1"`, `"enabled": false`, `"timeout": 5`, `["execute_code"]`} {
			if strings.Contains(text, stays) && !strings.Contains(string(out), stays) {
				t.Errorf("%s: %s is gone:\n%s", client, stays, out)
			}
		}
		if s, _ := c.read(meaning(t, c, out), ours.Name); !s.equals(ours) {
			t.Errorf("%s: %+v\n%s", client, s, out)
		}
	}
}

// TestRefused checks that a file that can't be parsed with certainty is not touched, and that the error names the
// place.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ client, text, want string }{
		{"cursor", "{\"a\": 1,\n  b: 2}", "line 2, column 3"},
		{"cursor", "{\"a\": 1} x", "line 1"},
		{"cursor", "{\"a\": ", "not valid JSON"},
		{"cursor", "[]", "the whole file should be an object"},
		{"cursor", "null", "should be an object"},
		{"cursor", "{\n \"mcpServers\": []}", "safely"},
		{"cursor", `{"mcpServers": null}`, "safely"},
		{"cursor", `{"mcpServers": {"sandboxmcp": "x"}}`, "starts no program"},
		{"cursor", "{\"mcpServers\": {\"sandboxmcp\": {}},\n\"mcpServers\": {\"x\": 1}}", "twice"},
		{"cursor", `{"mcpServers": {"sandboxmcp": {"command": "a"}, "sandboxmcp": {"command": "b"}, "sandboxmcp": {"command": "c"}}}`, "twice"},
		{"cursor", `{"mcpServers": {"sandboxmcp": {"url": "https://example.com"}}}`, "behind a URL"},
		{"cursor", strings.Repeat("[", 2_000_000), "more than 1000000 objects"},
		{"cursor", "\x00\x01binary", "not valid JSON"},
		{"goose", "a: [1\nb: 2\n", "yaml"},
		{"goose", "a: 1\n", "does not edit"},
	} {
		c, _ := FindClient(tt.client)
		path := filepath.Join(t.TempDir(), "file")
		os.WriteFile(path, []byte(tt.text), 0o600)
		_, err := targetAt(t, c, path).plan(ours, false)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "stays as it is") {
			t.Errorf("%s, %.60q: got %v, want %q", tt.client, tt.text, err, tt.want)
		}
		if got := read(t, path); string(got) != tt.text || exists(path+backupSuffix) {
			t.Errorf("%.60q was touched", tt.text)
		}
	}
}

func TestPlaces(t *testing.T) {
	c, _ := FindClient("cursor")
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
	})
	t.Run("links", func(t *testing.T) {
		dotfiles := filepath.Join(dir, "dotfiles")
		os.Mkdir(dotfiles, 0o755)
		real := filepath.Join(dotfiles, "claude.json")
		os.WriteFile(real, []byte("{}"), 0o644)
		link := filepath.Join(dir, "link")
		os.Symlink("dotfiles/claude.json", link)
		add(t, c, link, ours)
		if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("the link is %v, %v", info, err)
		}
		if _, ok, err := targetAt(t, c, real).entry(ours.Name); !ok || err != nil {
			t.Errorf("what it leads to: %v, %v", ok, err)
		}
		for _, to := range []string{"loop", "dotfiles/none.json"} {
			path := filepath.Join(dir, filepath.Base(to))
			os.Symlink(to, path)
			if _, err := openFile(path); err == nil {
				t.Errorf("a link to %s was followed", to)
			}
		}
	})
	t.Run("read-only", func(t *testing.T) {
		path := filepath.Join(dir, "readonly")
		os.WriteFile(path, []byte("{}"), 0o444)
		if _, err := targetAt(t, c, path).plan(ours, false); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no file", func(t *testing.T) {
		if _, err := openFile(dir); err == nil {
			t.Error("a directory was taken for a file")
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		path := filepath.Join(dir, "busy")
		os.WriteFile(path, []byte("{}"), 0o600)
		change, err := targetAt(t, c, path).plan(ours, false)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(path, []byte(`{"new": 1}`), 0o600)
		if err := change.apply(t.Context()); err == nil || string(read(t, path)) != `{"new": 1}` {
			t.Errorf("what came meanwhile is lost: %v", err)
		}
	})
	t.Run("no home", func(t *testing.T) {
		for _, c := range Clients() {
			if path, err := c.UserFile(Machine{OS: "linux"}); err == nil {
				t.Errorf("%s: %s", c.Name, path)
			}
		}
	})
	t.Run("directories of their own", func(t *testing.T) {
		home := filepath.Join(dir, "moved")
		env := map[string]string{}
		p := Machine{OS: "linux", Home: home, Env: func(name string) string { return env[name] }}
		where := func(client, want string) {
			t.Helper()
			c, _ := FindClient(client)
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
		// Other users may not write to any of these.
		for _, moved := range []string{".cline", "c", "d", "big disk"} {
			if files := Files(p); !slices.Contains(files, filepath.Join(home, moved)) {
				t.Errorf("%s is not among %v", moved, files)
			}
		}
	})
	t.Run("opencode's second name", func(t *testing.T) {
		c, _ := FindClient("opencode")
		p := Machine{OS: "linux", Home: filepath.Join(dir, "h")}
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
			got, err := c.edit([]byte(text), Server{Name: "s", Command: "/c"}, false)
			if err != nil || !reflect.DeepEqual(meaning(t, c, got), meaning(t, c, []byte(want))) {
				t.Errorf("got %s, %v", got, err)
			}
		}
	})
}

func TestUserFiles(t *testing.T) {
	for client, want := range map[string][3]string{
		"claude-desktop": {".config/Claude/claude_desktop_config.json", "Library/Application Support/Claude/claude_desktop_config.json", "AppData/Roaming/Claude/claude_desktop_config.json"},
		"claude-code":    {".claude.json", ".claude.json", ".claude.json"},
		"cursor":         {".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"},
		"vscode":         {".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json", "AppData/Roaming/Code/User/mcp.json"},
		"codex":          {".codex/config.toml", ".codex/config.toml", ".codex/config.toml"},
		"gemini":         {".gemini/settings.json", ".gemini/settings.json", ".gemini/settings.json"},
		"opencode":       {".config/opencode/opencode.json", ".config/opencode/opencode.json", ".config/opencode/opencode.json"},
		"windsurf":       {".codeium/windsurf/mcp_config.json", ".codeium/windsurf/mcp_config.json", ".codeium/windsurf/mcp_config.json"},
		"cline":          {".cline/data/settings/cline_mcp_settings.json", ".cline/data/settings/cline_mcp_settings.json", ".cline/data/settings/cline_mcp_settings.json"},
		"copilot":        {".copilot/mcp-config.json", ".copilot/mcp-config.json", ".copilot/mcp-config.json"},
		"goose":          {".config/goose/config.yaml", ".config/goose/config.yaml", "AppData/Roaming/Block/goose/config/config.yaml"},
		"lmstudio":       {".lmstudio/mcp.json", ".lmstudio/mcp.json", ".lmstudio/mcp.json"},
		"zed":            {".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"},
	} {
		c, _ := FindClient(client)
		home := t.TempDir()
		for i, system := range []string{"linux", "darwin", "windows"} {
			if got, err := c.UserFile(Machine{OS: system, Home: home}); err != nil || got != filepath.Join(home, want[i]) {
				t.Errorf("%s on %s: got %q, %v", client, system, got, err)
			}
		}
		if c.snippet != inTOML {
			all := meaning(t, c, []byte(c.Snippet(ours)))
			if s, ok := c.read(all, ours.Name); !ok || !s.equals(ours) {
				t.Errorf("%s: the snippet is %s", client, c.Snippet(ours))
			}
		}
	}
	c, _ := FindClient("codex")
	if got, want := c.Snippet(ours), "[mcp_servers.sandboxmcp]\ncommand = \"/opt/my tools/sandboxmcp\"\nargs = [\"serve\",\"--namespace\",\"a\\\"b<c>\"]\ntool_timeout_sec = 300\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzJSON checks that any file is either refused or keeps its meaning except for our entry.
func FuzzJSON(f *testing.F) {
	for _, text := range files {
		if len(text) < 10_000 {
			f.Add(strings.ReplaceAll(text, "%c", "mcp"))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, _ := FindClient("opencode")
		checkRound(t, c, text)
	})
}

func checkRound(t *testing.T, c Client, text string) {
	before, err := c.decode([]byte(text))
	if err != nil {
		return
	}
	keys := c.keys(before, ours.Name)
	if _, there := valueAt(before, keys); there {
		return
	}
	after, err := c.edit([]byte(text), ours, false)
	if err != nil {
		return
	}
	if s, there := c.read(meaning(t, c, after), ours.Name); !there || !s.equals(ours) {
		t.Fatalf("%q became %q: %+v", text, after, s)
	}
	out, err := c.edit(after, ours, true)
	if err != nil {
		t.Fatalf("%q, taken out of: %v", after, err)
	}
	if got, want := withoutPath(meaning(t, c, out), keys), withoutPath(before, keys); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q became %q", text, out)
	}
}

// TestRandomJSON does the same as FuzzJSON with generated files in many styles.
func TestRandomJSON(t *testing.T) {
	c, _ := FindClient("opencode")
	for seed := range int64(3000) {
		r := rand.New(rand.NewSource(seed))
		checkRound(t, c, randomText(r)+object2(r, 3, "mcp", "servers", "a")+randomText(r))
	}
}

func randomText(r *rand.Rand) string {
	return []string{"", "", " ", "\n", "\r\n\t", " // c, }\n", "/* { \" */", "\n  ", "\n\n// x\n"}[r.Intn(9)]
}

func object2(r *rand.Rand, depth int, names ...string) string {
	text := "{" + randomText(r)
	n := r.Intn(3)
	for i := range n {
		name := names[r.Intn(len(names))] + []string{"", fmt.Sprint(i)}[r.Intn(2)]
		v := []string{"1", "null", `"t\" // "`, "[1, 2,]", "{}"}[r.Intn(5)]
		if depth > 0 && r.Intn(2) == 0 {
			v = object2(r, depth-1, names...)
		}
		text += randomText(r) + fmt.Sprintf("%q", name) + randomText(r) + ":" + randomText(r) + v + randomText(r)
		if i < n-1 || r.Intn(3) == 0 {
			text += "," + randomText(r)
		}
	}
	return text + "}"
}

func add(t *testing.T, c Client, path string, s Server) {
	t.Helper()
	change, err := targetAt(t, c, path).plan(s, false)
	if err == nil {
		err = change.apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c Client, path string) {
	t.Helper()
	change, err := targetAt(t, c, path).plan(ours, true)
	if err == nil {
		err = change.apply(t.Context())
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

// containsInOrder reports whether a text contains all words in order.
func containsInOrder(text string, words []string) bool {
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
