package mcp

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"
)

// TestBridgeFiles copies files and directories into a session, to another one of the same namespace, and out as
// artifacts: exported files only.
func TestBridgeFiles(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	open := func(namespace string) string {
		text := p.tool("create_session", fmt.Sprintf(`{"language":"shell","namespace":%q}`, namespace)).text
		return sessionOf.FindStringSubmatch(text)[1]
	}
	one, two, foreign := open("a"), open("a"), open("b")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"exports/results/n.txt", "private/key"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 3, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("42\n"))
	}
	w.Close()
	whole := base64.StdEncoding.EncodeToString(b.Bytes())
	bridge := func(arguments string, a ...any) result {
		return p.tool("bridge_data", fmt.Sprintf(arguments, a...))
	}
	contains(t, bridge(`{"namespace":"a","session_id":%q,"tar":%q}`, one, whole).text, "2 files, 6 bytes, are in /workspace of session "+one)
	contains(t, bridge(`{"namespace":"a","session_id":%q,"from_session_id":%q,"path":"results","to":"in"}`, two, one).text,
		"1 file, 3 bytes, are in in of session "+two)
	contains(t, p.tool("execute_code", fmt.Sprintf(`{"namespace":"a","session_id":%q,"code":"cat in/n.txt; ls -A"}`, two)).text, "42\nin")
	cached := bridge(`{"namespace":"a","from_session_id":%q,"path":"results"}`, one)
	contains(t, cached.text, "stored as request_id: ", "results.tar", "what to do: get_artifacts")
	run := runOf.FindStringSubmatch(cached.text)[1]
	contains(t, p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"name":"results.tar","encoding":"base64"}`, run)).text, "as base64",
		base64.StdEncoding.EncodeToString([]byte("n.txt"))[:6])
	contains(t, p.tool("execute_code", fmt.Sprintf(`{"namespace":"a","language":"shell","code":"tar xOf r.tar n.txt","files":{"r.tar":{"request_id":%q,"artifact":"results.tar"}}}`, run)).text, "42")
	cached = bridge(`{"namespace":"a","from_session_id":%q,"path":"results/n.txt"}`, one)
	contains(t, cached.text, "n.txt, 3 bytes")
	for name, c := range map[string]struct{ arguments, want string }{
		"not exported": {fmt.Sprintf(`{"namespace":"a","session_id":%q,"from_session_id":%q,"path":"../private/key"}`, two, one),
			"no such file"},
		"kept, not exported": {fmt.Sprintf(`{"namespace":"a","from_session_id":%q,"path":"../private/key"}`, one), "no such file"},
		"of another": {fmt.Sprintf(`{"namespace":"b","session_id":%q,"from_session_id":%q,"path":"results"}`, foreign, one),
			"unknown session"},
		"kept of another": {fmt.Sprintf(`{"namespace":"b","from_session_id":%q,"path":"results"}`, one), "unknown session"},
		"into another's": {fmt.Sprintf(`{"namespace":"a","session_id":%q,"from_session_id":%q,"path":"results"}`, foreign, one),
			"unknown session"},
		"half a tar": {fmt.Sprintf(`{"namespace":"a","session_id":%q,"tar":%q}`, two,
			base64.StdEncoding.EncodeToString(b.Bytes()[:700])), "not complete"},
		"no base64":    {fmt.Sprintf(`{"namespace":"a","session_id":%q,"tar":"%%"}`, two), "is not base64"},
		"path and tar": {fmt.Sprintf(`{"namespace":"a","session_id":%q,"tar":%q,"path":"x"}`, two, whole), "send one of them"},
		"path and key": {fmt.Sprintf(`{"namespace":"a","session_id":%q,"from_session_id":%q,"path":"x","key":"k"}`, two, one),
			"conflicts with key"},
		"a path of nobody":    {fmt.Sprintf(`{"namespace":"a","session_id":%q,"path":"x"}`, two), "from_session_id"},
		"a tar for nobody":    {fmt.Sprintf(`{"namespace":"a","tar":%q}`, whole), "session_id"},
		"a value without key": {fmt.Sprintf(`{"namespace":"a","session_id":%q,"value":"1"}`, two), "key"},
		"to without path":     {fmt.Sprintf(`{"namespace":"a","session_id":%q,"key":"k","value":"1","to":"x"}`, two), "is for path and tar"},
	} {
		if got := p.tool("bridge_data", c.arguments); !got.IsError {
			t.Errorf("%s: %s", name, got.text)
		} else {
			contains(t, got.text, c.want)
		}
	}
	contains(t, p.tool("execute_code", fmt.Sprintf(`{"namespace":"a","session_id":%q,"code":"ls -A"}`, two)).text, "in\n")
}
