package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func TestOnlyWhatChangedInAHostWorkspaceIsAnArtifact(t *testing.T) {
	dir := project(t, map[string]string{
		"old": "old", "same-size": "aaaa", "backdated": "aaaa", "sub/old": "x", ".git/config": "[core]", "node_modules/m/i.js": "1",
	})
	old := time.Now().Add(-time.Hour)
	for _, f := range []string{"old", "same-size", "backdated"} {
		os.Chtimes(filepath.Join(dir, f), old, old)
	}
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell(`echo new > new; printf bbbb > same-size; printf bbbb > backdated; touch -r old backdated
		echo x > node_modules/m/new.js; echo y > .git/config; mkdir -p .git/hooks; echo z > .git/hooks/post-checkout; ln -s /etc/passwd link`,
		func(q *run.Request) { q.Workspace = backends.Mount{Host: dir, Write: true} })
	if err != nil {
		t.Fatal(err)
	}
	want := "new same-size"
	if runtime.GOOS == "linux" {
		want = "backdated new same-size"
	}
	if got := fileNames(res); got != want {
		t.Errorf("artifacts %q, want %q", got, want)
	}
	warned := fmt.Sprint(res.Warnings)
	if !strings.Contains(warned, ".git/config") || !strings.Contains(warned, ".git/hooks/post-checkout") {
		t.Errorf("no warning of changed git files: %q", warned)
	}
	left, _ := os.ReadDir(dir)
	for _, f := range left {
		if strings.Contains(f.Name(), "script") {
			t.Errorf("the script was left in the host's directory as %s", f.Name())
		}
	}
}

func TestReadOnlyWorkspaceHasNoArtifacts(t *testing.T) {
	dir := project(t, map[string]string{"a": "a"})
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("cat a", func(q *run.Request) { q.Workspace = backends.Mount{Host: dir} })
	if err != nil || len(res.Artifacts) != 0 || res.Stdout != "a" {
		t.Errorf("%v, %+v, %q", err, res.Artifacts, res.Stdout)
	}
	if r.Backend.Spec.Workspace.Write {
		t.Error("it was made writable")
	}
}

func TestScriptOfTheProjectRunsInItsPlace(t *testing.T) {
	dir := project(t, map[string]string{"src/main.sh": "echo $0"})
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("echo $0", func(q *run.Request) {
		q.Workspace, q.Within, q.Name = backends.Mount{Host: dir}, "src/main.sh", "main.sh"
	})
	if err != nil || res.Stdout != "src/main.sh\n" || len(r.Backend.Spec.Mounts) != 0 {
		t.Errorf("%v, %q, mounts %v", err, res.Stdout, r.Backend.Spec.Mounts)
	}
}

func TestScriptFromElsewhereComesByMountAndGoes(t *testing.T) {
	dir := project(t, nil)
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("echo here; echo $PYTHONPATH", func(q *run.Request) { q.Workspace = backends.Mount{Host: dir} })
	if err != nil || res.Stdout != "here\n/workspace\n" {
		t.Fatalf("%v, %q, %q", err, res.Stdout, res.Stderr)
	}
	m := r.Backend.Spec.Mounts
	if len(m) != 1 || m[0].Write || !strings.HasPrefix(m[0].Inside, run.Outside) {
		t.Fatalf("mounts %+v", m)
	}
	if _, err := os.Stat(filepath.Dir(m[0].Host)); err == nil {
		t.Errorf("%s was left on the host", m[0].Host)
	}
}

func TestInputs(t *testing.T) {
	dir := project(t, map[string]string{"data/a": "a", "data/sub/b": "b", "outside": "secret of the host"})
	for link, to := range map[string]string{"data/in": "a", "data/up": "../outside", "data/abs": "/etc/passwd", "data/loop": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command("mkfifo", filepath.Join(dir, "data/fifo")).Run(); err != nil {
		t.Fatal(err)
	}
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("find . -type f | sort | xargs grep . ; echo c >> data/a; echo d > new", func(q *run.Request) {
		q.Inputs = []run.Input{{Host: filepath.Join(dir, "data")}, {Name: "deep/er", Content: []byte("e")}}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"./data/a:a", "./data/in:a", "./data/sub/b:b", "./deep/er:e"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("the workspace lacks %s:\n%s", want, res.Stdout)
		}
	}
	for _, leak := range []string{"secret of the host", "root:"} {
		if strings.Contains(res.Stdout, leak) {
			t.Errorf("a link led outside:\n%s", res.Stdout)
		}
	}
	if got, want := fileNames(res), "data/a new"; got != want {
		t.Errorf("artifacts %q, want %q: the input that was changed, and the new file", got, want)
	}
	if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0].String(), "4 inputs") {
		t.Errorf("warnings %q", res.Warnings)
	}
}

func TestDirectoryWithoutItsName(t *testing.T) {
	dir := project(t, map[string]string{"script.sh": "cat a", "a": "content"})
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("cat a", func(q *run.Request) { q.Inputs = []run.Input{{Host: dir, Name: "."}} })
	if err != nil || res.Stdout != "content" || len(res.Artifacts) != 0 {
		t.Errorf("%v, %q, %+v", err, res.Stdout, res.Artifacts)
	}
}

func TestBadInputs(t *testing.T) {
	dir := project(t, map[string]string{"script.sh": "another one", "big": strings.Repeat("x", 2<<20)})
	for name, test := range map[string]struct {
		input run.Input
		want  string
	}{
		"leaves the workspace": {run.Input{Name: "../../etc/x"}, "not a valid name"},
		"absolute":             {run.Input{Name: "/etc/x"}, "not a valid name"},
		"no name":              {run.Input{}, "not a valid name"},
		"the script's name":    {run.Input{Host: filepath.Join(dir, "script.sh")}, "two different inputs"},
		"missing":              {run.Input{Host: filepath.Join(dir, "missing")}, "no such file"},
		"too large":            {run.Input{Host: filepath.Join(dir, "big")}, "larger than the workspace"},
		"a device":             {run.Input{Host: "/dev/zero"}, "not a regular file"},
	} {
		r := pipelinetest.NewRig(t, nil)
		_, err := r.Shell("true", func(q *run.Request) { q.Inputs, q.Limits.Disk = []run.Input{test.input}, 1<<20 })
		if e := pipelinetest.Stopped(t, err); !e.Denied || !strings.Contains(e.Reason, test.want) {
			t.Errorf("%s: got %q, want %q", name, e.Reason, test.want)
		}
	}
	r := pipelinetest.NewRig(t, nil)
	_, err := r.Shell("true", func(q *run.Request) {
		q.Workspace, q.Inputs = backends.Mount{Host: dir, Write: true}, []run.Input{{Name: "x"}}
	})
	if !pipelinetest.Stopped(t, err).Denied {
		t.Errorf("inputs were put into the host's directory: %v", err)
	}
}
