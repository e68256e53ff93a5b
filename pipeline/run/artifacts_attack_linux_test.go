package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// attacked makes a directory that programs write to, and one of a person's with a file that no artifact may touch.
func attacked(t *testing.T) (source, home string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(project(t, map[string]string{"home/key": "keep", "shown/out/dir/x": "old"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		text, _ := os.ReadFile(filepath.Join(dir, "home/key"))
		if entries, err := os.ReadDir(filepath.Join(dir, "home")); string(text) != "keep" || len(entries) != 1 {
			t.Errorf("the person's directory has %v, %v, and the key %q", entries, err, text)
		}
	})
	return filepath.Join(dir, "shown"), filepath.Join(dir, "home")
}

// TestArtifactsSwapped has a program that can write around the directory for its artifacts, and changes the files there
// before it ends.
func TestArtifactsSwapped(t *testing.T) {
	for name, tt := range map[string]struct {
		dir, swap string
		want      string // where the artifact is; "" is nowhere
		withheld  string
	}{
		"a link":                {"out", "mv out old; ln -s ../home out", "old/key", ""},
		"a link to the parent":  {"out", "mv ../shown ../old; ln -s home ../shown", "../old/out/key", ""},
		"a link before it":      {"new/deep", "ln -s ../home new", "", ""},
		"a link below":          {"out", "rm -r out/*; ln -s ../../home/key out/key", "out/key", ""},
		"a hard link below":     {"out", "ln ../home/key out/key", "out/key", ""},
		"a FIFO below":          {"out", "mkfifo out/key", "out/key", ""},
		"a device's link below": {"out", "ln -s /dev/full out/key", "out/key", ""},
		"a directory below":     {"out", "mkdir out/key", "", "a directory has its name"},
		"a file before it":      {"new/deep", "touch new", "", ""},
		"a FIFO before it":      {"new/deep", "mkfifo new", "", ""},
		"nothing":               {"new/deep", "", "new/deep/key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			source, _ := attacked(t)
			code := "echo -n pwned > key; cd '" + source + "' || exit 9; " + tt.swap
			res, err := pipelinetest.NewRig(t, nil).Shell(code, func(q *run.Request) { q.Artifacts = filepath.Join(source, tt.dir) })
			if err != nil || res.ExitCode != 0 {
				t.Fatalf("%v, %q", err, res.Stderr)
			}
			switch text, err := os.ReadFile(filepath.Join(source, tt.want)); {
			case tt.withheld != "":
				if len(res.Artifacts) != 1 || res.Artifacts[0].Withheld != tt.withheld {
					t.Errorf("got %+v", res.Artifacts)
				}
			case tt.want == "" && res.ArtifactsFailed == "":
				t.Error("the result does not say that nothing was saved")
			case tt.want != "" && (string(text) != "pwned" || res.ArtifactsFailed != ""):
				t.Errorf("the artifact is %q, %v; %s", text, err, res.ArtifactsFailed)
			}
		})
	}
}

// TestArtifactsLinkLeft names links that an earlier program left.
func TestArtifactsLinkLeft(t *testing.T) {
	source, home := attacked(t)
	for name, to := range map[string]string{"link": home, "dangling": filepath.Join(home, "new"), "file": filepath.Join(home, "key")} {
		if err := os.Symlink(to, filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"link", "link/new", "dangling", "file", "out/../link", "out/dir/x"} {
		r := pipelinetest.NewRig(t, nil)
		_, err := r.Shell("echo pwned > key", func(q *run.Request) { q.Artifacts = filepath.Join(source, "out") + "/../" + name })
		if e := pipelinetest.Stopped(t, err); !e.Denied || r.Backend.Starts.Load() != 0 {
			t.Errorf("%s: %v, and %d sandboxes", name, e, r.Backend.Starts.Load())
		}
	}
	_, err := pipelinetest.NewRig(t, nil).Shell("cat *",
		func(q *run.Request) { q.Inputs = []run.Input{{Host: filepath.Join(source, "file")}} })
	if e := pipelinetest.Stopped(t, err); !e.Denied || !strings.Contains(e.Remedy.String(), filepath.Join(home, "key")) {
		t.Errorf("an input: %v, %v", e, e.Remedy)
	}
	_, err = pipelinetest.NewRig(t, nil).Shell("cat */*",
		func(q *run.Request) { q.Inputs = []run.Input{{Host: filepath.Join(source, "link")}} })
	if e := pipelinetest.Stopped(t, err); !e.Denied {
		t.Errorf("a directory as an input: %v", e)
	}
}

// TestRefusedMakesNothing has runs refused at each stage.
func TestRefusedMakesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		config  func(*pipeline.Config)
		rig     func(*pipelinetest.Rig)
		request func(*run.Request)
	}{
		"bad argument":    {nil, nil, func(q *run.Request) { q.Env = []string{"no value"} }},
		"bad language":    {nil, nil, func(q *run.Request) { q.Language = "klingon" }},
		"above its cap":   {func(c *pipeline.Config) { c.Caps.RAM = 64 << 20 }, nil, func(q *run.Request) { q.Limits.RAM = 1 << 30 }},
		"unknown backend": {nil, nil, func(q *run.Request) { q.Backend = "none" }},
		"unknown layer":   {nil, nil, func(q *run.Request) { q.Require = []string{"none"} }},
		"layer not there": {nil, func(r *pipelinetest.Rig) { r.Backend.Refuse = backends.Refuse("there is no landlock") }, nil},
		"layer not held": {nil, func(r *pipelinetest.Rig) { r.Backend.Unheld = []string{"landlock"} },
			func(q *run.Request) { q.Require = []string{"landlock"} }},
		"no secret":   {nil, nil, func(q *run.Request) { q.Secrets = []string{"NONE"} }},
		"no input":    {nil, nil, func(q *run.Request) { q.Inputs = []run.Input{{Host: "/none"}} }},
		"no row":      {nil, func(r *pipelinetest.Rig) { r.Log.Fail = func([]audit.Entry) error { return errors.New("full") } }, nil},
		"no last row": {nil, func(r *pipelinetest.Rig) { r.Log.FailAt(event.ExecutionCompleted) }, nil},
		"our own": {func(c *pipeline.Config) { c.Protected = []string{c.Temp} }, nil, func(q *run.Request) {
			q.Mounts = []backends.Mount{{Host: os.TempDir(), Inside: "/y", Write: true}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			temp := t.TempDir()
			r := pipelinetest.NewRig(t, func(c *pipeline.Config) {
				if c.Temp = temp; tt.config != nil {
					tt.config(c)
				}
			})
			if tt.rig != nil {
				tt.rig(r)
			}
			_, err := r.Shell("true", func(q *run.Request) {
				if q.Artifacts = filepath.Join(dir, "new/deep"); tt.request != nil {
					tt.request(q)
				}
			})
			if err == nil {
				t.Fatal("it was not refused")
			}
			if entries, _ := os.ReadDir(dir); len(entries) > 0 && name != "no last row" {
				t.Errorf("a refused run made %v", entries)
			}
		})
	}
}

// TestOverlapByMounts shows directories under other names that mounts give them.
func TestOverlapByMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root can mount")
	}
	dir, err := filepath.EvalSymlinks(project(t, map[string]string{"shown/out/x": "", "home/state/keys/key": "", "at/x": "", "keys/x": ""}))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for to, from := range map[string]string{"at": "shown", "keys": "home/state/keys"} {
		if err := unix.Mount(at(from), at(to), "", unix.MS_BIND, ""); err != nil {
			hosttest.SkipMissing(t, "root", "it can't mount: "+err.Error())
		}
		t.Cleanup(func() { unix.Unmount(at(to), unix.MNT_DETACH) })
	}
	p := pipeline.New(pipeline.Config{Protected: []string{at("home/state")}})
	rw := func(name string) []backends.Mount {
		return []backends.Mount{{Host: at(name), Inside: "/x", Write: true}}
	}
	for name, tt := range map[string]struct {
		q       run.Request
		refused bool
	}{
		"artifacts, by another name": {run.Request{HostFiles: run.HostFiles{Mounts: rw("shown")}, Artifacts: at("at/out")}, true},
		"artifacts, the other way":   {run.Request{HostFiles: run.HostFiles{Mounts: rw("at")}, Artifacts: at("shown/out")}, true},
		"artifacts to be made":       {run.Request{HostFiles: run.HostFiles{Mounts: rw("shown")}, Artifacts: at("at/new/deep")}, true},
		"all of it":                  {run.Request{HostFiles: run.HostFiles{Mounts: rw("shown")}, Artifacts: at("at")}, true},
		"artifacts apart":            {run.Request{HostFiles: run.HostFiles{Mounts: rw("shown/out")}, Artifacts: at("at/new")}, false},
		"our own":                    {run.Request{HostFiles: run.HostFiles{Mounts: rw("keys")}}, true},
		"artifacts in our own":       {run.Request{Artifacts: at("keys/new")}, true},
		"artifacts around our own":   {run.Request{Artifacts: at("home")}, true},
		"what is not ours, read-only": {run.Request{HostFiles: run.HostFiles{Mounts: []backends.Mount{{Host: at("at"), Inside: "/x"}}},
			Artifacts: at("shown/out")}, false},
		"our own below another, shown":  {run.Request{HostFiles: run.HostFiles{Mounts: rw(".")}}, true},
		"nothing of ours, written anew": {run.Request{HostFiles: run.HostFiles{Mounts: rw("at")}}, false},
	} {
		saves, err := run.FindArtifacts(new(pipeline.Run), tt.q.Artifacts)
		if err == nil {
			err = containment.Overlap(p, tt.q.HostDirs(), saves)
		}
		if (err != nil) != tt.refused {
			t.Errorf("%s: got %v, want refused %v", name, err, tt.refused)
		}
	}
}
