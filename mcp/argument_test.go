package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// fine are harmless arguments of each tool.
var fine = map[string]string{
	"execute_code":        `{"code":"true","language":"shell"}`,
	"install_package":     `{"packages":["nothing-like-this"]}`,
	"validate_code":       `{"code":"true","language":"shell"}`,
	"create_session":      `{"language":"shell"}`,
	"terminate_session":   `{"session_id":"01K00000000000000000000000"}`,
	"bridge_data":         `{"session_id":"01K00000000000000000000000","key":"x","value":"1"}`,
	"list_runtimes":       `{}`,
	"set_resource_limits": `{}`,
	"sandbox_stats":       `{}`,
	"inspect_state":       `{}`,
	"get_artifacts":       `{"request_id":"01K00000000000000000000000"}`,
	"request_egress":      `{"domain":"example.com"}`,
	"audit_execution":     `{}`,
	"web_search":          `{"query":"x"}`,
	"fetch_webpage":       `{"url":"https://example.com"}`,
	"browser_fetch":       `{"url":"https://example.com"}`,
	"host_exec":           `{"command":"true"}`,
	"request_host_access": `{"kind":"read","pattern":"/tmp"}`,
	"list_host_access":    `{}`,
	"host_file_read":      `{"path":"/etc/hostname"}`,
	"host_file_write":     `{"path":"/tmp/x","content":"x"}`,
	"host_file_list":      `{"path":"/tmp"}`,
	"host_file_copy":      `{"source":"/a","destination":"/b"}`,
}

// wrong returns values that a schema does not allow.
func wrong(schema map[string]any) []string {
	list := map[string][]string{
		"string":  {`42`, `{"a":1}`, `[1]`, `true`},
		"number":  {`"many"`, `{}`, `[]`, `true`, `1e999`, `""`},
		"integer": {`1.5`, `"many"`, `{}`, `[]`},
		"boolean": {`"perhaps"`, `42`, `{}`},
		"array":   {`"x"`, `42`, `{}`, `[{}]`, `[[[[]]]]`},
		"object":  {`"x"`, `42`, `[]`},
	}[schema["type"].(string)]
	if schema["enum"] != nil {
		list = append(list, `"pythn"`, `""`)
	}
	for key, value := range map[string]float64{"minimum": -1, "maximum": +1} {
		if bound, ok := schema[key].(float64); ok {
			list = append(list, fmt.Sprint(bound+value))
		}
	}
	if limit, ok := schema["maxLength"].(float64); ok {
		list = append(list, `"`+strings.Repeat("x", int(limit)+1)+`"`)
	}
	return list
}

// TestBadArguments sends each tool an invalid value of each argument: the answer names the argument and the remedy,
// and conforms to the tool's schema.
func TestBadArguments(t *testing.T) {
	p := newFullRig(t, nil).hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	for name, raw := range listTools(t, p) {
		var one struct {
			InputSchema struct {
				Properties map[string]map[string]any
				Required   []string
			}
		}
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		refused := func(arguments string, names ...string) {
			t.Helper()
			m := p.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
			if m.Error != nil && m.Error.Code == -32602 && strings.Contains(arguments, "1e999") {
				return // the library can't parse the number
			}
			r := p.read1(m)
			if !r.IsError || !strings.Contains(r.text, "what to do") {
				t.Errorf("%s %.200s: got %v, %.300q", name, arguments, r.IsError, r.text)
			}
			contains(t, r.text, names...)
			checkConforms(t, name, schemas[name], r.Structured)
		}
		for _, arguments := range []string{`[]`, `"x"`, `42`} {
			refused(arguments, "must be an object")
		}
		with := func(argument, value string) string {
			var all map[string]json.RawMessage
			if err := json.Unmarshal([]byte(fine[name]), &all); err != nil {
				t.Fatal(err)
			}
			delete(all, argument)
			var parts []string
			for _, other := range slices.Sorted(maps.Keys(all)) {
				parts = append(parts, fmt.Sprintf("%q:%s", other, all[other]))
			}
			if value != "" {
				parts = append(parts, fmt.Sprintf("%q:%s", argument, value))
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		refused(with("no_such_argument", `1`), `"no_such_argument"`)
		for _, argument := range one.InputSchema.Required {
			refused(with(argument, ""), fmt.Sprintf("%q", argument), "missing")
			refused(with(argument, "null"), fmt.Sprintf("%q", argument), "missing")
		}
		for argument, schema := range one.InputSchema.Properties {
			if name == "bridge_data" && argument == "value" {
				continue // accepts any JSON
			}
			for _, value := range wrong(schema) {
				refused(with(argument, value), `"`+argument)
			}
		}
	}
}

func TestDidYouMean(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	for _, test := range []struct{ tool, arguments, want string }{
		{"execute_code", `{"code":"1","lang":"python"}`, `"language"`},
		{"execute_code", `{"code":"1","timeout_seconds":3}`, `"timeout"`},
		{"execute_code", `{"code":"1","sesion_id":"x"}`, `"session_id"`},
		{"execute_code", `{"code":"1","domains":["x"]}`, `"allowed_domains"`},
		{"execute_code", `{"code":"1","resource_limits":{"max_ram":3}}`, `"resource_limits.max_ram_mb"`},
		{"execute_code", `{"code":"1","language":"pythn"}`, `"python"`},
		{"execute_code", `{"code":"1","language":"cobol"}`, `python, node, typescript, shell, r`},
		{"execute_code", `{"script":"1"}`, `"code"`},
		{"inspect_state", `{"id":"x"}`, `"session_id"`},
		{"terminate_session", `{"request_id":"x"}`, `"session_id"`},
		{"execute_code", `{"code":"1","language":"rust"}`, `allowed: it must be`}, // and not r
	} {
		if r := p.tool(test.tool, test.arguments); !r.IsError || !strings.Contains(r.text, test.want) {
			t.Errorf("%s %s: got %q, want %s", test.tool, test.arguments, r.text, test.want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"code":"1","timeout":"x","resource_limits":{"max_ram_mb":[]},"files":{"a":{"b":1}}}`))
	for _, arguments := range fine {
		f.Add([]byte(arguments))
	}
	all := (&Server{}).tools()
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, one := range all {
			got, err := one.In.Check(raw)
			if (got == nil) != (err != nil) || err != nil && err.Error() == "" {
				t.Errorf("%s: %q: %v, %v", one.Name, raw, got, err)
			}
		}
	})
}
