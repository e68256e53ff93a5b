package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// TestOverlap requests mounts that would let a program write to our directories, or read them, by name and through
// links.
func TestOverlap(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"project/out", "state/homes/a", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "project"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	p := pipeline.New(pipeline.Config{Protected: []string{filepath.Join(dir, "state", "log.db")}, Homes: filepath.Join(dir, "state/homes")})
	if err := os.Symlink("../../project", filepath.Join(dir, "state/homes/link")); err != nil {
		t.Fatal(err)
	}
	home := func(name string) run.Request {
		return run.Request{HostFiles: run.HostFiles{Home: filepath.Join(dir, name)}}
	}
	rw := func(name string) backends.Mount {
		return backends.Mount{Host: filepath.Join(dir, name), Inside: "/x", Write: true}
	}
	ro := func(name string) backends.Mount { return backends.Mount{Host: filepath.Join(dir, name), Inside: "/x"} }
	if err := os.Symlink("state/log.db", filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "state/log.db"), nil, 0o600)
	if err := os.Link(filepath.Join(dir, "state/log.db"), filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		q       run.Request
		refused bool
	}{
		{"a home", home("state/homes/a"), false},
		{"all homes", home("state/homes"), true},
		{"another directory as a home", home("project"), true},
		{"a home through a link", home("state/homes/link"), true},
		{"apart", run.Request{HostFiles: run.HostFiles{Workspace: rw("project")}, Artifacts: filepath.Join(dir, "elsewhere")}, false},
		{"a longer name", run.Request{HostFiles: run.HostFiles{Workspace: rw("project")}, Artifacts: filepath.Join(dir, "project2")}, false},
		{"no artifacts", run.Request{HostFiles: run.HostFiles{Workspace: rw("project")}}, false},
		{"read-only", run.Request{HostFiles: run.HostFiles{Workspace: backends.Mount{Host: filepath.Join(dir, "project")}},
			Artifacts: filepath.Join(dir, "project/out")}, false},
		{"in the workspace", run.Request{HostFiles: run.HostFiles{Workspace: rw("project")}, Artifacts: filepath.Join(dir, "project/out")}, true},
		{"the workspace itself", run.Request{HostFiles: run.HostFiles{Workspace: rw("project")}, Artifacts: filepath.Join(dir, "project")}, true},
		{"to be made in it", run.Request{HostFiles: run.HostFiles{Workspace: rw("project")}, Artifacts: filepath.Join(dir, "project/new/deep")},
			true},
		{"through a link", run.Request{HostFiles: run.HostFiles{Workspace: rw("project")}, Artifacts: filepath.Join(dir, "link/out")}, true},
		{"in a mount", run.Request{HostFiles: run.HostFiles{Mounts: []backends.Mount{rw("project")}},
			Artifacts: filepath.Join(dir, "project/out")}, true},
		{"the log", run.Request{HostFiles: run.HostFiles{Workspace: rw("state")}}, true},
		{"above the log", run.Request{HostFiles: run.HostFiles{Mounts: []backends.Mount{rw(".")}}}, true},
		{"above the log, read-only", run.Request{HostFiles: run.HostFiles{Workspace: ro("state")}}, false},
		{"the log, read-only", run.Request{HostFiles: run.HostFiles{Mounts: []backends.Mount{ro("state/log.db")}}}, true},
		{"below it", run.Request{HostFiles: run.HostFiles{Mounts: []backends.Mount{ro("state/log.db/x")}}}, true},
		{"by a link", run.Request{HostFiles: run.HostFiles{Mounts: []backends.Mount{ro("log")}}}, true},
		{"by a hard link", run.Request{HostFiles: run.HostFiles{Mounts: []backends.Mount{ro("hard")}}}, true},
		{"artifacts beside the log", run.Request{Artifacts: filepath.Join(dir, "state/new")}, false},
		{"artifacts above the log", run.Request{Artifacts: dir}, true},
		{"artifacts around the log", run.Request{Artifacts: filepath.Join(dir, "state")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			saves, err := run.FindArtifacts(new(pipeline.Run), c.q.Artifacts)
			if err == nil {
				err = errors.Join(containment.Overlap(p, c.q.HostDirs(), saves), containment.CheckHome(p, c.q.Home))
			}
			if (err != nil) != c.refused {
				t.Errorf("got %v, want refused %v", err, c.refused)
			}
		})
	}
}

// TestOwnFilesAreThereToBeCovered has the log make its files before a sandbox shows a directory above them.
func TestOwnFilesAreThereToBeCovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := project(t, map[string]string{"log.db": ""})
		r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Protected = []string{filepath.Join(dir, "log.db")} })
		r.Log.Delay = make(chan struct{})
		go func() {
			synctest.Wait()
			if n := r.Backend.Starts.Load(); n != 0 {
				t.Errorf("%d sandboxes before the row", n)
			}
			close(r.Log.Delay)
		}()
		if _, err := r.Shell("true", func(q *run.Request) { q.Workspace = backends.Mount{Host: dir} }); err != nil {
			t.Error(err)
		}
	})
}
