package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// plain returns a server with the defaults of serve: text and images only, except for clients that are known to need
// more.
func plain(t testing.TB) *rig { return newRig(t, func(c *Config) { c.Structured = false }) }

// TestWhoGetsStructured calls as each known client, in both eras.
func TestWhoGetsStructured(t *testing.T) {
	r := plain(t)
	ask := func(p *peer, meta string) (schema, structured bool) {
		t.Helper()
		list := p.call("tools/list", `{`+strings.TrimPrefix(meta, ",")+`}`)
		run := p.call("tools/call", `{"name":"sandbox_stats","arguments":{}`+meta+`}`)
		refused := p.call("tools/call", `{"name":"sandbox_stats","arguments":{"x":1}`+meta+`}`)
		structured = strings.Contains(run.line, `"structuredContent":{`)
		if len(list.Result) == 0 || !strings.Contains(run.line, "slots taken") ||
			strings.Contains(refused.line, `"structuredContent":{`) != structured {
			t.Errorf("got %.300s\n%s\n%s", list.line, run.line, refused.line)
		}
		return strings.Contains(list.line, `"outputSchema":`), structured
	}
	want := map[string]bool{"": false, "test": false, "inspector-web": true, "Claude-Code": false}
	for name, client := range seenClients() {
		want[name] = client.both
	}
	for name, want := range want {
		p := r.connect()
		p.initializeAs(name, "2025-11-25", `{}`)
		if schema, structured := ask(p, ""); schema != want || structured != want {
			t.Errorf("%q: schemas %v, structured %v, want %v", name, schema, structured, want)
		}
		meta := strings.Replace(fmt.Sprintf(modern, "{}"), `"name":"t"`, fmt.Sprintf(`"name":%q`, name), 1)
		if schema, structured := ask(r.connect(), ","+meta); schema != want || structured != want {
			t.Errorf("%q, stateless: schemas %v, structured %v, want %v", name, schema, structured, want)
		}
		// A request of that protocol names its client itself, or the client is unknown.
		for _, who := range []string{"", `"name":"t"`} {
			meta := strings.Replace(fmt.Sprintf(modern, "{}"), `"name":"t","version":"1"`, who, 1)
			if who == "" {
				meta = strings.Replace(meta, `,"io.modelcontextprotocol/clientInfo":{}`, "", 1)
			}
			if schema, structured := ask(p, ","+meta); schema || structured {
				t.Errorf("%q: a request of %q gets schemas %v, structured %v", name, who, schema, structured)
			}
		}
	}
	if schema, structured := ask(newRig(t, nil).hello("2025-11-25", `{}`), ""); !schema || !structured {
		t.Errorf("--structured: schemas %v, structured %v", schema, structured)
	}
}

// TestListIsShort bounds the text that models read before the first call.
func TestListIsShort(t *testing.T) {
	p := plain(t).hello("2025-11-25", `{}`)
	if n := len(p.call("tools/list", `{}`).Result); n > 26000 {
		t.Errorf("tools/list has %d bytes", n)
	}
	off := map[string]string{"web_search": "web", "fetch_webpage": "web", "browser_fetch": "web", "host_exec": "host",
		"request_host_access": "host",
		"list_host_access":    "host", "host_file_read": "host", "host_file_write": "host", "host_file_list": "host", "host_file_copy": "host"}
	tools := listTools(t, p)
	if len(tools) != len(strings.Fields(all)) {
		t.Errorf("%d tools", len(tools))
	}
	for name, raw := range tools {
		var one struct {
			Description string
			InputSchema struct{ Properties map[string]any }
		}
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		which, is := off[name]
		if is != strings.HasPrefix(one.Description, "Off until a person sets "+which+".enabled: true ") || len(one.InputSchema.Properties) == 0 {
			t.Errorf("%s: got %s", name, raw)
		}
		if is && len(raw) > 400 {
			t.Errorf("%s takes %d bytes: %s", name, len(raw), raw)
		}
		if !is {
			continue
		}
		if r := p.tool(name, fine[name]); !r.IsError || !strings.Contains(r.text, "off\nwhat to do: a person has to set "+which+
			".enabled: true") {
			t.Errorf("%s: got %v, %q", name, r.IsError, r.text)
		}
	}
	rows := p.tool("audit_execution", `{"kinds":["execution.refused"],"limit":100}`).text
	contains(t, rows, slices.Collect(maps.Keys(off))...)
}

// TestToolsOn lists only tools that are on, and refuses and records calls of the others.
func TestToolsOn(t *testing.T) {
	names := func(r *rig) []string { return slices.Sorted(maps.Keys(listTools(t, r.hello("2025-11-25", `{}`)))) }
	on := newRig(t, func(c *Config) { c.ToolsOn = true })
	got := names(on)
	if len(got) != 13 || slices.ContainsFunc(got, func(n string) bool {
		return strings.Contains(n, "web") || strings.Contains(n, "host") || n == "browser_fetch"
	}) {
		t.Errorf("got %q", got)
	}
	p := on.hello("2025-11-25", `{}`)
	contains(t, p.tool("host_exec", `{"command":"id -u"}`).text, "host access is off")
	contains(t, p.tool("audit_execution", `{}`).text, "host_exec", "id -u")
	if got := names(newFullRig(t, func(c *Config) { c.ToolsOn = true })); len(got) != len(strings.Fields(all)) {
		t.Errorf("with all on: got %q", got)
	}
}

var fence = regexp.MustCompile(`<<<([0-9a-f]{16})\n`)

// unfenced returns the texts in a JSON value outside of fences.
func unfenced(t testing.TB, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	all := texts(v)
	for i, text := range all {
		for at := fence.FindStringSubmatchIndex(text); at != nil; at = fence.FindStringSubmatchIndex(text) {
			_, after, found := strings.Cut(text[at[1]:], ">>>"+text[at[2]:at[3]])
			if !found {
				t.Errorf("a fence is open: %q", text)
				break
			}
			text = text[:at[0]] + after
		}
		all[i] = text
	}
	return strings.Join(all, "\n")
}

// TestNothingUnseen puts invisible text everywhere.
func TestNothingUnseen(t *testing.T) {
	hide := func(text string) string {
		return strings.Map(func(r rune) rune { return 0xe0000 + r }, text) + "\u200b\u200e\u202e\u2060\ufeff\u00ad\U000e0101\u2028"
	}
	for _, structured := range []bool{false, true} {
		p := newRig(t, func(c *Config) { c.Structured = structured }).hello("2025-11-25", `{}`)
		hidden := hide("obey")
		for _, test := range []struct{ tool, arguments string }{
			{"execute_code", fmt.Sprintf(`{"code":%s}`, quoted("import sys; h = '"+hidden+
				"'; print(h); print(h, file=sys.stderr); open('a'+h[:4]+'.txt', 'w').write(h); raise ValueError(h)"))},
			{"validate_code", fmt.Sprintf(`{"code":%s}`, quoted("x = ("+hidden))},
			{"validate_code", fmt.Sprintf(`{"code":%s,"auto_fix":true}`, quoted("x = '"+hidden+"'; json.dumps(x); eval(x)"))},
			{"execute_code", fmt.Sprintf(`{"code":"1","secrets":[%s]}`, quoted(hidden))},
			{"execute_code", fmt.Sprintf(`{"code":"1",%s:1}`, quoted(hidden))},
			{"get_artifacts", fmt.Sprintf(`{"request_id":%s}`, quoted(hidden))},
		} {
			m := p.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, test.tool, test.arguments))
			var got any
			if err := json.Unmarshal(m.Result, &got); err != nil {
				t.Fatalf("%v: %s", err, m.line)
			}
			for _, text := range texts(got) {
				if safe := safetext.Model(text); safe != text {
					t.Errorf("%s %s (structured %v): got %q, want %q", test.tool, test.arguments, structured, text, safe)
				}
			}
		}
	}
}

// texts returns all strings in a value.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			all = append(all, texts(one)...)
		}
	case map[string]any:
		for name, one := range v {
			all = append(append(all, name), texts(one)...)
		}
	}
	return all
}
