package mcp

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// fileRig returns a client with access to the files below a directory.
func fileRig(t *testing.T) (p *peer, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	policy, err := host.NewPolicy(host.Rules{Write: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(cfg *Config) {
		backend := process.New(process.Config{StateDir: state})
		memory := vault.NewMemory()
		memory.Set("default", "TEST_SECRET", []byte("correct-horse"+"-battery-staple"))
		own := pipeline.New(pipeline.Config{Backends: []backends.Backend{backend}, Audit: cfg.Log.(*audit.Log), Vault: vault.New(memory),
			Results:   cfg.Results,
			Approvals: cfg.Approvals, Settings: []any{&host.Config{Enabled: true, Policy: policy}}, Protected: []string{state}})
		t.Cleanup(func() { own.Close(); backend.Close() })
		cfg.Pipeline = own
	})
	return r.hello("2025-11-25", `{}`), dir
}

func TestHostFiles(t *testing.T) {
	p, dir := fileRig(t)
	schemas := outputs(t, p)
	call := func(tool, format string, a ...any) result {
		t.Helper()
		arguments := fmt.Sprintf(format, a...)
		r := p.tool(tool, arguments)
		checkConforms(t, tool+" "+arguments, schemas[tool], r.Structured)
		return r
	}
	contains(t, call("host_file_write", `{"path":%q,"content":"one\ntwo\n"}`, dir+"/a.txt").text, "wrote "+dir+"/a.txt, 8 bytes, SHA-256")
	contains(t, call("host_file_write", `{"path":%q,"content":"x"}`, dir+"/a.txt").text, "error: ", "exists", "overwrite or append")
	contains(t, call("host_file_write", `{"path":%q,"content":%q,"encoding":"base64"}`, dir+"/b.bin",
		base64.StdEncoding.EncodeToString([]byte{0xff, 0})).text, "2 bytes")
	contains(t, call("host_file_write", `{"path":%q,"content":"!","encoding":"base64"}`, dir+"/c").text, "not base64")
	part := call("host_file_read", `{"path":%q,"max_bytes":4}`, dir+"/a.txt")
	contains(t, part.text, "one\n", `[4 bytes follow: call again with "offset": 4]`)
	if part.facts["content"] != "one\n" || part.facts["next_offset"] != 4.0 || part.facts["total_bytes"] != 8.0 {
		t.Errorf("got %s", part.Structured)
	}
	contains(t, call("host_file_read", `{"path":%q,"offset":4}`, dir+"/a.txt").text, "two\n")
	contains(t, call("host_file_read", `{"path":%q,"offset":40}`, dir+"/a.txt").text, "offset 40 is past the end")
	contains(t, call("host_file_read", `{"path":%q}`, dir+"/b.bin").text, "encoding base64")
	contains(t, call("host_file_read", `{"path":%q,"encoding":"base64"}`, dir+"/b.bin").text, "/wA=")
	contains(t, call("host_file_list", `{"path":%q}`, dir).text, "has 2 entries:", "- a.txt, 8 bytes", "- b.bin")
	contains(t, call("host_file_list", `{"path":%q,"limit":1}`, dir).text, "there are more")
	refused := call("host_file_read", `{"path":"/etc/passwd"}`)
	contains(t, refused.text, "refused: ", dir+" (read and write)", "request_host_access, kind read")
	contains(t, call("host_file_read", `{"path":%q}`, dir+"/../x").text, "refused: ", "..")
	contains(t, call("host_file_write", `{"path":%q,"content":"x"}`, dir+"/.git/hooks/pre-commit").text, "by itself")
	if err := os.WriteFile(dir+"/s.txt", []byte("x correct-horse"+"-battery-staple y \x1b[31m"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := call("host_file_read", `{"path":%q}`, dir+"/s.txt")
	contains(t, got.text, "x ***REDACTED*** y \\u001b[31m")
	if strings.Contains(string(got.Structured), "horse") {
		t.Errorf("got %s", got.Structured)
	}
}

func TestHostCopies(t *testing.T) {
	p, dir := fileRig(t)
	if err := os.WriteFile(dir+"/data.csv", []byte("a,b\n1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/secret.txt", []byte("correct-horse"+"-battery-staple"), 0o644); err != nil {
		t.Fatal(err)
	}
	made := p.tool("create_session", `{"language":"python"}`)
	id, _ := made.facts["session_id"].(string)
	if id == "" {
		hosttest.SkipMissing(t, "sandbox", made.text)
	}
	copied := func(format string, a ...any) result {
		t.Helper()
		return p.tool("host_file_copy", fmt.Sprintf(format, a...))
	}
	contains(t, copied(`{"source":%q,"destination":"in/data.csv","session_id":%q}`, dir+"/data.csv", id).text,
		"copied "+dir+"/data.csv to in/data.csv, 8 bytes")
	contains(t, copied(`{"source":%q,"destination":"in/data.csv","session_id":%q}`, dir+"/data.csv", id).text, "already exists", "overwrite")
	contains(t, copied(`{"source":%q,"destination":"in/data.csv","session_id":%q,"overwrite":true}`, dir+"/data.csv", id).text, "copied")
	contains(t, copied(`{"source":%q,"destination":"s","session_id":%q}`, dir+"/secret.txt", id).text, "withheld")
	contains(t, copied(`{"source":%q,"destination":"../x","session_id":%q}`, dir+"/data.csv", id).text, "not a valid name for a file")
	ran := p.tool("execute_code", fmt.Sprintf(`{"session_id":%q,"code":"import os; t = open('in/data.csv').read(); open('out.txt','w').write(t.upper()); os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo'); t"}`, id))
	contains(t, ran.text, "1,2")
	contains(t, copied(`{"source":"out.txt","destination":%q,"session_id":%q}`, dir+"/out.txt", id).text, "copied out.txt to "+dir)
	if got, _ := os.ReadFile(dir + "/out.txt"); string(got) != "A,B\n1,2\n" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"link", "fifo", "none"} {
		contains(t, copied(`{"source":%q,"destination":%q,"session_id":%q}`, name, dir+"/no", id).text, "has no file")
	}
	run, _ := ran.facts["request_id"].(string)
	contains(t, copied(`{"source":"out.txt","destination":%q,"request_id":%q}`, dir+"/kept.txt", run).text, "copied out.txt")
	contains(t, copied(`{"source":"out.txt","destination":%q,"request_id":%q,"namespace":"other"}`, dir+"/kept2.txt", run).text, "unknown run")
	contains(t, copied(`{"source":"a","destination":"b"}`).text, "are ambiguous", "with a / in front")
	contains(t, copied(`{"source":%q,"destination":%q,"session_id":%q}`, dir+"/data.csv", dir+"/x", id).text, "are ambiguous")
	contains(t, copied(`{"source":%q,"destination":"x","request_id":%q}`, dir+"/data.csv", run).text, "are ambiguous")
	contains(t, copied(`{"source":"out.txt","destination":"x","request_id":%q}`, run).text, "are ambiguous")
	contains(t, copied(`{"source":"out.txt","destination":%q,"session_id":%q,"request_id":%q}`, dir+"/x", id, run).text, "are ambiguous")
	stored := copied(`{"source":%q,"destination":"later.csv"}`, dir+"/data.csv")
	at, _ := stored.facts["request_id"].(string)
	contains(t, stored.text, "use it in execute_code", at)
	next := p.tool("execute_code", fmt.Sprintf(`{"code":"print(open('later.csv').read(), open('x.csv').read())","files":{"later.csv":{"request_id":%q},"x.csv":{"request_id":%q,"artifact":"out.txt"}}}`, at, run))
	contains(t, next.text, "a,b\n1,2", "A,B\n1,2")
	contains(t, p.tool("execute_code", fmt.Sprintf(`{"code":"1","namespace":"other","files":{"later.csv":{"request_id":%q}}}`, at)).text,
		"unknown run")
}
