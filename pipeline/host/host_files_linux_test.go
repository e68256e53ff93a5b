package host_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// hidden is the secret of the namespace, in pieces.
var hidden = "correct-horse" + "-battery-staple"

// filesRig is a pipeline that may read and write below dir.
type filesRig struct {
	*pipeline.Pipeline
	log    *audit.Log
	broker *approval.Broker
	dir    string
}

func newFilesRig(t *testing.T, change func(*pipeline.Config)) filesRig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	log, err := audit.Open(t.Context(), state+"/audit.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	broker := approval.New(approval.Config{Audit: log})
	t.Cleanup(func() { broker.Close() })
	memory := vault.NewMemory()
	memory.Set("default", "TOKEN", []byte(hidden))
	policy, err := host.NewPolicy(host.Rules{Read: []string{state}, Write: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := pipeline.Config{Audit: log, Vault: vault.New(memory), Approvals: broker, Protected: []string{state},
		Settings: []any{&host.Config{Enabled: true, Policy: policy, MaxFile: 1 << 20}}}
	if change != nil {
		change(&cfg)
	}
	p := pipeline.New(cfg)
	t.Cleanup(p.Close)
	return filesRig{p, log, broker, dir}
}

func (h filesRig) writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(h.dir+"/"+name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return h.dir + "/" + name
}

// rows is all that the log holds.
func (h filesRig) rows(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for r, err := range h.log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(r.Kind + " " + string(r.Data) + "\n")
	}
	return all.String()
}

// No way to cut a file shows a part of a secret.
func TestHostReadRedacts(t *testing.T) {
	h := newFilesRig(t, nil)
	text := "before " + hidden + " after\n" + base64.StdEncoding.EncodeToString([]byte(hidden)) + "\n"
	name := h.writeFile(t, "a.txt", text)
	for offset := range int64(len(text)) {
		for _, limit := range []int64{1, 5, 20, 0} {
			got, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: name, Offset: offset, Max: limit})
			if err != nil {
				t.Fatal(err)
			}
			for n := 4; n < len(hidden); n++ {
				if strings.Contains(string(got.Content), hidden[n-4:n]) {
					t.Fatalf("offset %d, %d bytes: %q", offset, limit, got.Content)
				}
			}
		}
		if offset > 30 {
			break
		}
	}
	if _, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: name, Encoding: "base64"}); err == nil ||
		!strings.Contains(err.Error(), "withheld") {
		t.Errorf("base64: %v", err)
	}
	if rows := h.rows(t); strings.Contains(rows, hidden) {
		t.Errorf("the log has the secret")
	}
}

func TestHostReadParts(t *testing.T) {
	h := newFilesRig(t, nil)
	text := "aé漢😀\n"
	name := h.writeFile(t, "u.txt", text)
	for limit := int64(1); limit < 12; limit++ {
		whole, offset := "", int64(0)
		for {
			got, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: name, Offset: offset, Max: limit})
			if err != nil {
				t.Fatal(err)
			}
			whole += string(got.Content)
			if offset = got.Next; offset == 0 {
				break
			}
		}
		if whole != text {
			t.Errorf("in pieces of %d: %q", limit, whole)
		}
	}
	binary := h.writeFile(t, "b.bin", "\xff\xfe\x00")
	if _, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: binary, Encoding: "text"}); err == nil ||
		!strings.Contains(err.Error(), "base64") {
		t.Errorf("binary content: %v", err)
	}
	got, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: binary, Offset: 1, Max: 1})
	if err != nil || got.Text || string(got.Content) != "\xfe" || got.Next != 2 || got.Total != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestHostWriteRows(t *testing.T) {
	h := newFilesRig(t, nil)
	name := h.writeFile(t, "a.txt", "one\nkey="+hidden+"\nthree\n")
	w, err := writeHostFile(t.Context(), h.Pipeline, host.WriteFile{Path: name, Content: []byte("one\nkey=new\nthree\n"),
		Mode: files.Overwrite})
	if err != nil || w.SHA256 != pipeline.Hash([]byte("one\nkey=new\nthree\n")) {
		t.Fatalf("got %+v, %v", w, err)
	}
	rows := h.rows(t)
	for _, want := range []string{"execution.started", "execution.completed", `"tool":"host_file_write"`, `-key=***REDACTED***\n+key=new\n`,
		w.SHA256,
		pipeline.Hash([]byte("one\nkey=" + hidden + "\nthree\n")), `"what":"` + name} {
		if !strings.Contains(rows, want) {
			t.Errorf("the log lacks %q in:\n%s", want, rows)
		}
	}
	if strings.Contains(rows, hidden) {
		t.Error("the log has the secret")
	}
}

// A caller that has read a file with masked secrets must not write the mask into it.
func TestHostWritePreservesSecrets(t *testing.T) {
	h := newFilesRig(t, nil)
	name := h.writeFile(t, "a.txt", "key="+hidden+"\n")
	got, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeHostFile(t.Context(), h.Pipeline, host.WriteFile{Path: name, Content: append(got.Content, "more\n"...),
		Mode: files.Overwrite}); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("got %v", err)
	}
	other := h.writeFile(t, "b.txt", "x")
	if _, err := writeHostFile(t.Context(), h.Pipeline, host.WriteFile{Path: other, Content: []byte(vault.Mark), Mode: files.Overwrite}); err != nil {
		t.Errorf("the mask alone: %v", err)
	}
}

// A path can be a secret, and is in refusals and in their rows.
func TestHostRefusalsRedact(t *testing.T) {
	h := newFilesRig(t, nil)
	for _, name := range []string{"/nowhere/" + hidden, h.dir + "/" + hidden, h.dir + "/../" + hidden, h.dir + "/.git/" + hidden} {
		_, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: name})
		if err == nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("read: %v", err)
		}
		_, err = copyHostFile(t.Context(), h.Pipeline, host.CopyFile{Source: name, Destination: h.dir + "/x"})
		if err == nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("copy: %v", err)
		}
	}
	h.writeFile(t, hidden, "x")
	l, err := listHostDirectory(t.Context(), h.Pipeline, host.ListDirectory{Path: h.dir})
	if err != nil || len(l.Entries) != 1 || l.Entries[0].Path != vault.Mark {
		t.Errorf("got %+v, %v", l.Entries, err)
	}
	if rows := h.rows(t); strings.Contains(rows, hidden) {
		t.Error("the log has the secret")
	}
}

func TestHostOff(t *testing.T) {
	h := newFilesRig(t, func(c *pipeline.Config) { pipeline.EnsureSettings[host.Config](c).Enabled = false })
	name := h.writeFile(t, "a.txt", "x")
	_, read := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: name})
	_, write := writeHostFile(t.Context(), h.Pipeline, host.WriteFile{Path: name, Mode: files.Overwrite})
	_, list := listHostDirectory(t.Context(), h.Pipeline, host.ListDirectory{Path: h.dir})
	_, copied := copyHostFile(t.Context(), h.Pipeline, host.CopyFile{Source: name, Destination: h.dir + "/b"})
	for _, err := range []error{read, write, list, copied} {
		if err == nil || !strings.Contains(err.Error(), "host.enabled: true") {
			t.Errorf("got %v", err)
		}
	}
}

// No row, no result: a read that can't be recorded returns nothing, and a write that can't be recorded is not
// performed.
func TestHostUnrecorded(t *testing.T) {
	h := newFilesRig(t, nil)
	name := h.writeFile(t, "a.txt", "x")
	h.log.Close()
	if got, err := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: name}); err == nil || got.Content != nil || got.Stdout != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := writeHostFile(t.Context(), h.Pipeline, host.WriteFile{Path: name, Content: []byte("y"), Mode: files.Overwrite}); err == nil {
		t.Error("it was written")
	}
	if got, _ := os.ReadFile(name); string(got) != "x" {
		t.Errorf("the file has %q", got)
	}
}

// An approval is for the directory that the person saw, for the namespace in the question, and for the access in it.
func TestHostApproved(t *testing.T) {
	h := newFilesRig(t, nil)
	other, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other+"/a.txt", []byte("approved"), 0o644); err != nil {
		t.Fatal(err)
	}
	read := host.ReadFile{Path: other + "/a.txt"}
	if _, err := readHostFile(t.Context(), h.Pipeline, read); err == nil || !strings.Contains(err.Error(), h.dir+" (read and write)") {
		t.Errorf("before: %v", err)
	}
	_, err = h.broker.Grant(t.Context(), approval.Question{Kind: approval.Host, What: "read " + other, Namespace: "default"}, approval.Answer{Allowed: true, By: approval.CommandLine()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readHostFile(t.Context(), h.Pipeline, read); err != nil || string(got.Content) != "approved" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := writeHostFile(t.Context(), h.Pipeline, host.WriteFile{Path: other + "/b"}); err == nil {
		t.Error("written, and only reading was approved")
	}
	read.Namespace = "other"
	if _, err := readHostFile(t.Context(), h.Pipeline, read); err == nil {
		t.Error("it was approved for another namespace")
	}
	link := h.dir + "/link"
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"read " + link, "read " + other + "/", "read  " + other, "Read " + other, "run " + other} {
		if _, err := h.broker.Grant(t.Context(), approval.Question{Kind: approval.Host, What: what, Namespace: "other"}, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
			t.Fatal(err)
		}
		if _, err := readHostFile(t.Context(), h.Pipeline, read); err == nil {
			t.Errorf("%q allowed it", what)
		}
	}
	read.Path = link + "/a.txt"
	if _, err := readHostFile(t.Context(), h.Pipeline, read); err == nil {
		t.Error("an approval led through a link")
	}
}

// Somebody at a terminal is asked for the directory, and a no is one.
func TestHostAsked(t *testing.T) {
	h := newFilesRig(t, nil)
	other, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, allowed := range []bool{false, true} {
		ask := func(ctx context.Context, p *approval.Pending) {
			if p.Question.What != "write "+other {
				t.Errorf("asked for %q", p.Question.What)
			}
			if err := h.broker.Answer(ctx, p.Question.ID, approval.Answer{Allowed: allowed, By: approval.CommandLine(), Scope: scopeIf(allowed)}); err != nil {
				t.Error(err)
			}
		}
		namespace := map[bool]string{false: "a", true: "b"}[allowed]
		_, err := writeHostFile(t.Context(), h.Pipeline, host.WriteFile{Caller: host.Caller{Namespace: namespace, Ask: ask}, Path: other + "/n.txt", Content: []byte("x")})
		if (err == nil) != allowed {
			t.Errorf("answer %v: %v", allowed, err)
		}
		_, err = readHostFile(t.Context(), h.Pipeline, host.ReadFile{Caller: host.Caller{Namespace: namespace}, Path: other + "/n.txt"})
		if err == nil {
			t.Error("an approval for one call outlived it")
		}
	}
}

func scopeIf(allowed bool) string {
	if allowed {
		return approval.ScopeRun
	}
	return ""
}

// The log and the keys are below a root here, and are nobody's.
func TestHostProtected(t *testing.T) {
	h := newFilesRig(t, nil)
	own := pipeline.PackageSettings[host.Config](h.Pipeline).Policy.Roots()[0].Path + "/audit.db"
	_, read := readHostFile(t.Context(), h.Pipeline, host.ReadFile{Path: own})
	_, list := listHostDirectory(t.Context(), h.Pipeline, host.ListDirectory{Path: filepath.Dir(own)})
	_, copied := copyHostFile(t.Context(), h.Pipeline, host.CopyFile{Source: own, Destination: h.dir + "/x"})
	for _, err := range []error{read, list, copied} {
		var e *pipeline.Error
		if !errors.As(err, &e) || !e.Denied || !strings.Contains(e.Reason, "belongs to sandboxmcp") {
			t.Errorf("got %v", err)
		}
	}
}
