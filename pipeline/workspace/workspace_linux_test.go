package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// project is a pipeline with a directory of the host.
type project struct {
	*testing.T
	*pipeline.Pipeline
	log *pipelinetest.FlakyLog
	dir string
}

func newProject(t *testing.T) project {
	t.Helper()
	keys, err := signer.OpenKeys(filepath.Join(t.TempDir(), "keys"), func(context.Context, signer.Change) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	p, log, secrets := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Keys = keys
		pipeline.EnsureSettings[workspace.Config](c).Dir = filepath.Join(t.TempDir(), "changes")
	})
	secrets.Set("default", "TOKEN", []byte("Zx9hV4kq-72mLw0p"))
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "one\n", "b.txt": "two\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return project{t, p, log, dir}
}

// run changes the directory with a shell script.
func (p project) run(code string) pipeline.Outcome {
	p.Helper()
	_, out, err := pipeline.Do(p.Context(), p.Pipeline, run.Request{Language: "shell", Code: []byte(code),
		HostFiles: run.HostFiles{Workspace: backends.Mount{Host: p.dir, Propose: true}}, Reach: run.Reach{Secrets: []string{"TOKEN"}}})
	if err != nil || out.ChangesFailed != "" {
		p.Fatalf("%v, %s", err, out.ChangesFailed)
	}
	return out
}

func (p project) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(b)
}

// do performs an effect and returns its result.
func do[T any](p project, e pipeline.Effect[T]) (T, error) {
	answer, _, err := pipeline.Do(p.Context(), p.Pipeline, e)
	return answer, err
}

func TestApplyAndUndo(t *testing.T) {
	p := newProject(t)
	out := p.run("echo more >>a.txt; rm b.txt; mkdir d; echo new >d/c.txt")
	if p.read("a.txt") != "one\n" || p.read("b.txt") != "two\n" {
		t.Fatal("the program has changed the host's directory")
	}
	set := out.Changes
	if set == nil || set.ID != out.ID || set.Counts.String() != "1 changed, 1 added, 1 removed (+2 -1)" {
		t.Fatalf("change set %+v", set)
	}
	if done, err := do(p, workspace.Apply{ID: set.ID}); err != nil || len(done.Paths) != 4 {
		t.Fatalf("applied %+v, %v", done, err)
	}
	if p.read("a.txt") != "one\nmore\n" || p.read("b.txt") != "" || p.read("d/c.txt") != "new\n" {
		t.Error("not all was applied")
	}
	if _, err := do(p, workspace.Undo{ID: set.ID}); err != nil {
		t.Fatal(err)
	}
	if p.read("a.txt") != "one\n" || p.read("b.txt") != "two\n" || p.read("d/c.txt") != "" {
		t.Error("not all was undone")
	}
	kinds := pipelinetest.Kinds(t, p.log)
	for _, kind := range []string{workspace.Proposed, workspace.Applied, workspace.Undone} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no row %s: %v", kind, kinds)
		}
	}
}

// The receipt lists each path, and its hash covers all of them.
func TestReceiptHasChanges(t *testing.T) {
	p := newProject(t)
	out := p.run("echo more >>a.txt; printf 'x' >$'bad\\xff'")
	envelope, err := signer.ParseEnvelope(out.Receipt)
	if err != nil {
		t.Fatal(err)
	}
	payload := string(envelope.Payload)
	for _, part := range []string{`"change_set":{"directory":"` + p.dir + `"`,
		`{"path":"a.txt","before":{"kind":"file","mode":420,"size":4,"sha256":"`, `"path_base64":"YmFk/w=="`} {
		if !strings.Contains(payload, part) {
			t.Errorf("no %s in %s", part, payload)
		}
	}
	if rows := pipelinetest.Rows(t, p.log, workspace.Proposed); len(rows) != 1 || !strings.Contains(rows[0], "changes_sha256") {
		t.Errorf("rows %v", rows)
	}
}

func TestConflict(t *testing.T) {
	p := newProject(t)
	out := p.run("echo more >>a.txt; rm b.txt")
	os.WriteFile(filepath.Join(p.dir, "a.txt"), []byte("mine\n"), 0o644)
	_, err := do(p, workspace.Apply{ID: out.Changes.ID})
	if err == nil || !strings.Contains(err.Error(), "a.txt") || p.read("a.txt") != "mine\n" || p.read("b.txt") != "two\n" {
		t.Errorf("%v; a.txt %q, b.txt %q", err, p.read("a.txt"), p.read("b.txt"))
	}
	if kinds := pipelinetest.Kinds(t, p.log); slices.Contains(kinds, workspace.Applied) {
		t.Errorf("nothing was applied, and the log says so: %v", kinds)
	}
}

// A file with a leased secret is never applied, and no reader of the difference sees the secret.
func TestSecretsStay(t *testing.T) {
	p := newProject(t)
	out := p.run(`echo "key $TOKEN" >key.txt; echo more >>a.txt`)
	if done, err := do(p, workspace.Apply{ID: out.Changes.ID, Paths: []string{"key.txt", "a.txt"}}); err != nil || len(done.Left) != 1 ||
		p.read("key.txt") != "" {
		t.Errorf("applied %+v, %v; key.txt %q", done, err, p.read("key.txt"))
	}
	text, err := workspace.Diff(t.Context(), p.Pipeline, *out.Changes, nil)
	if err != nil || strings.Contains(text, "Zx9hV4kq") || !strings.Contains(text, "+more") {
		t.Errorf("%v, %s", err, text)
	}
}

// A difference that is longer than maxDiff says that it is cut.
func TestLongDiff(t *testing.T) {
	p := newProject(t)
	out := p.run("yes line | head -c 5000000 >long; echo end >z.txt")
	text, err := workspace.Diff(t.Context(), p.Pipeline, *out.Changes, nil)
	if err != nil || len(text) > 5<<20 || !strings.HasSuffix(text, "\n+line\nThe difference is cut here, after 4 MiB: name paths to read "+
		"them, or export it.\n") {
		t.Errorf("%v, %d bytes", err, len(text))
	}
	if text, err = workspace.Diff(t.Context(), p.Pipeline, *out.Changes, []string{"z.txt"}); err != nil ||
		!strings.HasSuffix(text, "\n+end\n") {
		t.Errorf("%v, %s", err, text)
	}
}

// No namespace reaches the change sets of another, and the content of a dropped set is gone.
func TestNamespaces(t *testing.T) {
	p := newProject(t)
	id := p.run("echo more >>a.txt").Changes.ID
	for _, e := range []pipeline.Effect[changes.Applied]{workspace.Apply{Namespace: "other", ID: id},
		workspace.Drop{Namespace: "other", ID: id}, workspace.Undo{Namespace: "other", ID: id}} {
		if _, err := do(p, e); err == nil || !strings.Contains(err.Error(), "unknown change set") {
			t.Errorf("%T: %v", e, err)
		}
	}
	if _, err := workspace.Get(p.Pipeline, "other", id); err == nil {
		t.Error("another namespace reads the change set")
	}
	if done, err := do(p, workspace.Drop{ID: id}); err != nil || done.Set.Status != changes.StatusDropped {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := do(p, workspace.Apply{ID: id}); err == nil || p.read("a.txt") != "one\n" {
		t.Errorf("%v, %q", err, p.read("a.txt"))
	}
}

func TestNoStore(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	_, _, err := pipeline.Do(t.Context(), p, run.Request{Language: "shell", Code: []byte("true"),
		HostFiles: run.HostFiles{Workspace: backends.Mount{Host: t.TempDir(), Propose: true}}})
	if refused, is := errors.AsType[*pipeline.Error](err); !is || !refused.Denied {
		t.Errorf("got %v", err)
	}
}
