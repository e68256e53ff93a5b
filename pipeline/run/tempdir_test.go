package run_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func TestScriptsLeftByTheKilledAreSwept(t *testing.T) {
	temp := filepath.Join(t.TempDir(), "state", "tmp")
	young, err := containment.TempDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	foreign, old := filepath.Join(temp, "other"), filepath.Join(temp, containment.TempDirPrefix+"1")
	for _, dir := range []string{foreign, old} {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Temp = temp })
	var source string
	r.Backend.OnStart = func(b *pipelinetest.FakeSandbox) { source = b.Spec.Mounts[0].Host }
	if res, err := r.Shell("echo ran", func(q *run.Request) { q.Workspace = backends.Mount{Host: t.TempDir()} }); err != nil ||
		res.Stdout != "ran\n" {
		t.Fatalf("%v: %q", err, res.Stdout)
	}
	if filepath.Dir(filepath.Dir(source)) != temp {
		t.Errorf("the script lay in %s, want it below %s", source, temp)
	}
	for dir, want := range map[string]bool{young: true, foreign: true, old: false, filepath.Dir(source): false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: got %v, want it to be there: %v", dir, err, want)
		}
	}
	for path, want := range map[string]os.FileMode{temp: 0o711, filepath.Dir(temp): 0o700, young: 0o711} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}
