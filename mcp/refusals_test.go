package mcp

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestRemedies: the remedy of a caller's mistake does not need a person, and does not repeat the same call.
func TestRemedies(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	shell := fmt.Sprint(p.tool("create_session", `{"language":"shell"}`).facts["session_id"])
	python := fmt.Sprint(p.tool("create_session", `{}`).facts["session_id"])
	p.tool("execute_code", `{"session_id":"`+python+`","code":"total, rows = 1, []"}`)
	p.tool("execute_code", `{"session_id":"`+shell+`","code":"touch there"}`)
	leak := fmt.Sprint(p.tool("execute_code", `{"language":"shell","code":"echo $TEST_SECRET > leak","secrets":["TEST_SECRET"]}`).
		facts["request_id"])

	files := func(all string, want ...string) (rows []mended) {
		for _, in := range []string{"", `,"session_id":"` + shell + `"`} {
			rows = append(rows, mended{"execute_code", `{"language":"shell","code":"ls","files":` + all + in + `}`, append(want, `"files"`)})
		}
		return rows
	}
	rows := []mended{
		{"get_artifacts", `{"request_id":"` + leak + `","name":"leak"}`, []string{`"leak" is withheld: a secret is in it`, "without the secret",
			"artifacts.withhold"}},
		{"execute_code", `{"code":"1","files":{"x":{"request_id":"` + leak + `","artifact":"leak"}}}`,
			[]string{"withheld", "without the secret"}},
		{"bridge_data", `{"session_id":"` + shell + `","key":"x","from_session_id":"` + python + `","from_key":"totl"}`,
			[]string{`session ` + python + ` has no variable "totl"`, "from_key: rows, total"}},
		{"bridge_data", `{"session_id":"` + shell + `","key":"other","from_session_id":"` + python + `"}`,
			[]string{`no variable "other"`, "from_key: rows, total"}},
		{"execute_code", `{"code":"1","secrets":["TEST_SECRT"]}`, []string{`TEST_SECRT`, `TEST_SECRET`}},
		{"execute_code", `{"code":"1","allowed_domains":["localhost"]}`,
			[]string{"localhost is the sandbox itself", "egress.local in the operator's configuration", "(for a person to type)"}},
		{"create_session", `{"allowed_domains":["localhost:3000"]}`,
			[]string{"port of this machine", "egress.local in the operator's configuration"}},
		{"request_egress", `{"domain":"app.localhost"}`, []string{`"domain"`, "localhost is the sandbox itself"}},
		{"execute_code", `{"code":"1","backend":"docker"}`, []string{`unknown backend "docker"`, "process"}},
	}
	rows = append(rows, files(`{"/etc/x":"a"}`, `"/etc/x"`, `relative`, `"x"`)...)
	rows = append(rows, files(`{"../x/y":"a"}`, `"../x/y"`, `relative`)...)
	rows = append(rows, files(`{"":"a"}`, `""`)...)
	rows = append(rows, files(`{".":"a"}`, `"."`)...)
	rows = append(rows, files(`{"`+strings.Repeat("x", 300)+`":"a"}`, "255")...)
	rows = append(rows, files(`{"`+strings.Repeat("x/", 600)+`x":"a"}`, "1000")...)
	rows = append(rows, files(`{"a\u0000b":"a"}`, "NUL")...)
	rows = append(rows, files(`{"a":"x","a/b":"y"}`, `"a"`, `"a/b"`, "directory")...)
	rows = append(rows, files(`{"a/b/c":"x","a/b":"y"}`, `"a/b"`, `"a/b/c"`, "directory")...)
	rows = append(rows, files(`{"a":"1","./a":"2"}`, `"a"`)...)
	rows = append(rows, mended{"execute_code", `{"code":"ls","session_id":"` + shell + `","files":{"there/x":"1"}}`,
		[]string{`"there/x"`, `files another name`}})
	for _, row := range rows {
		got := p.tool(row.tool, row.arguments)
		if !got.IsError || strings.Contains(got.text, "a person has to look") || strings.Contains(got.text, "try again") || len(got.text) > 1200 {
			t.Errorf("%s %.200s: %s", row.tool, row.arguments, got.text)
		}
		if flag := aFlag.FindString(typedByPeople.ReplaceAllString(got.text, "")); flag != "" {
			t.Errorf("%s %.200s: %q names the flag %s", row.tool, row.arguments, got.text, flag)
		}
		if n := len(row.want); !containsAll(got.text, row.want) {
			t.Errorf("%s %.200s: got %q, want %q", row.tool, row.arguments, got.text, row.want[:n])
		}
	}
}

// typedByPeople matches a command of sandboxmcp that an agent can show to a person.
var typedByPeople = regexp.MustCompile(`sandboxmcp [^()\n]*\(for a person to type\)`)

type mended struct {
	tool, arguments string
	want            []string
}

func containsAll(text string, all []string) bool {
	for _, want := range all {
		if !strings.Contains(text, want) {
			return false
		}
	}
	return true
}
