package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// all are the required tools; there are no others.
const all = `execute_code install_package validate_code create_session terminate_session bridge_data list_runtimes
	set_resource_limits sandbox_stats inspect_state get_artifacts request_egress audit_execution web_search fetch_webpage
	browser_fetch host_exec request_host_access list_host_access host_file_read host_file_write host_file_list host_file_copy`

func listTools(t testing.TB, p *peer) map[string]json.RawMessage {
	var got struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(p.call("tools/list", `{}`).Result, &got); err != nil {
		t.Fatal(err)
	}
	tools := map[string]json.RawMessage{}
	for _, raw := range got.Tools {
		var one struct{ Name string }
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		tools[one.Name] = raw
	}
	return tools
}

// TestToolsList compares each tool's entry with its golden file.
func TestToolsList(t *testing.T) {
	tools := listTools(t, newFullRig(t, nil).hello("2025-11-25", `{}`))
	names := []string{}
	for name, raw := range tools {
		names = append(names, name)
		file := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(file, pretty(raw), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(pretty(raw))); diff != "" {
			t.Errorf("%s: golden (-), got (+); write it with -update:\n%s", name, diff)
		}
	}
	want := strings.Fields(all)
	slices.Sort(want)
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools: want (-), got (+):\n%s", diff)
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != len(want) {
		t.Errorf("%d golden files, %v; want one for each tool", len(files), err)
	}
}

// TestSchemasAreStrict checks that no schema has constructs that strict clients refuse.
func TestSchemasAreStrict(t *testing.T) {
	for name, raw := range listTools(t, newFullRig(t, nil).hello("2025-11-25", `{}`)) {
		var one struct {
			Title, Description        string
			InputSchema, OutputSchema map[string]any
			Annotations               map[string]any
		}
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		if one.Title == "" || len(one.Description) < 20 || len(one.Description) > 1000 {
			t.Errorf("%s: title %q, description of %d characters", name, one.Title, len(one.Description))
		}
		for _, hint := range []string{"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			if one.Annotations[hint] == nil {
				t.Errorf("%s: no annotation %s", name, hint)
			}
		}
		if one.Annotations["readOnlyHint"] == true && one.Annotations["destructiveHint"] == true {
			t.Errorf("%s: reads only, and destroys", name)
		}
		for which, schema := range map[string]map[string]any{"input": one.InputSchema, "output": one.OutputSchema} {
			if schema["type"] != "object" || schema["properties"] == nil || schema["additionalProperties"] != false {
				t.Errorf("%s: the %s schema is not a closed object", name, which)
			}
			checkStrict(t, name+" "+which, schema, true)
			compile(t, name, schema)
		}
	}
}

// checkStrict checks one schema and its nested ones.
func checkStrict(t *testing.T, where string, schema map[string]any, top bool) {
	allowed := []string{"type", "description", "enum", "minLength", "maxLength", "minimum", "maximum", "items", "minItems", "maxItems",
		"properties", "required", "additionalProperties", "default"}
	for key := range schema {
		if !slices.Contains(allowed, key) {
			t.Errorf("%s: %s is not for strict clients", where, key)
		}
	}
	kind, _ := schema["type"].(string)
	if !slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object"}, kind) {
		t.Errorf("%s: type %v", where, schema["type"])
	}
	if about, _ := schema["description"].(string); !top && len(about) < 4 {
		t.Errorf("%s: description %q", where, about)
	}
	if items, ok := schema["items"].(map[string]any); ok != (kind == "array") {
		t.Errorf("%s: items of a %s", where, kind)
	} else if ok {
		checkStrict(t, where+"[]", items, false)
	}
	properties, _ := schema["properties"].(map[string]any)
	if kind == "object" && len(properties) == 0 && strings.Contains(where, " input") {
		t.Errorf("%s: Gemini refuses objects without properties", where)
	}
	for name, one := range properties {
		checkStrict(t, where+"."+name, one.(map[string]any), false)
	}
	if required, ok := schema["required"].([]any); ok {
		for _, name := range required {
			if properties[name.(string)] == nil {
				t.Errorf("%s: requires %v, which it does not have", where, name)
			}
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok {
		checkStrict(t, where+".*", more, false)
	}
}

// compile compiles a schema in the dialect that the protocol names.
func compile(t testing.TB, name string, schema any) *jsonschema.Schema {
	t.Helper()
	b, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(name+".json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name + ".json")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// outputs returns each tool's output schema: that of its golden file if the tool is off.
func outputs(t testing.TB, p *peer) map[string]*jsonschema.Schema {
	schemas := map[string]*jsonschema.Schema{}
	for name, raw := range listTools(t, p) {
		var one struct{ OutputSchema any }
		err := json.Unmarshal(raw, &one)
		if err == nil && one.OutputSchema == nil {
			if raw, err = os.ReadFile(filepath.Join("testdata", name+".json")); err == nil {
				err = json.Unmarshal(raw, &one)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		schemas[name] = compile(t, name, one.OutputSchema)
	}
	return schemas
}

// checkConforms checks structured content against a schema.
func checkConforms(t testing.TB, name string, schema *jsonschema.Schema, raw json.RawMessage) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		t.Errorf("%s: the output does not fit its schema: %v\n%.1000s", name, err, raw)
	}
}

func TestUnknownTools(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	for name, want := range map[string]string{
		"run_code": `did you mean "execute_code"?`, "Python": `did you mean "execute_code"?`, "bash": `did you mean "execute_code"?`,
		"execute_python": `did you mean "execute_code"?`, "exec_code": `did you mean "execute_code"?`,
		"execute-code":             `did you mean "execute_code"?`,
		"sandboxmcp__execute_code": `did you mean "execute_code"?`, "pip_install": `did you mean "install_package"?`,
		"read_file": `did you mean "get_artifacts" or "host_file_read"?`, "get_artifact": `did you mean "get_artifacts"?`,
		"web_fetch": `did you mean "fetch_webpage"?`, "zzz": "the tools are execute_code, install_package, ",
		strings.Repeat("x", 10000): "the tools are execute_code",
	} {
		m := p.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, name))
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%.40s: got %.500s", name, m.line)
		} else if contains(t, m.Error.Message, "unknown tool ", want); len(m.Error.Message) > 700 {
			t.Errorf("%.40s: %d bytes", name, len(m.Error.Message))
		}
	}
	for other, ours := range otherTools() {
		for _, name := range ours {
			if !slices.ContainsFunc((&Server{}).tools(), func(t tool) bool { return t.Name == name }) {
				t.Errorf("%s stands for %s, which there is not", other, name)
			}
		}
	}
}
