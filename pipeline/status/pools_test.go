package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// A backend must execute the same program that it was told to have ready: else an idle interpreter would run with the
// settings and secrets of another program.
func TestBackendKnowsTheProgramBeforeItStarts(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	dir := t.TempDir()
	token := "tok" + "en-that-is-lent"
	r.Memory.Set("default", "TOKEN", []byte(token))
	for name, change := range map[string]func(*run.Request){
		"plain":     nil,
		"args":      func(q *run.Request) { q.Args = []string{"-x", ""} },
		"variables": func(q *run.Request) { q.Env = []string{"A=1", "PYTHONPATH=/workspace/lib"} },
		"secret":    func(q *run.Request) { q.Secrets = []string{"TOKEN"} },
		"workspace": func(q *run.Request) { q.Workspace = backends.Mount{Host: dir} },
		"dash":      func(q *run.Request) { q.Name = "-script.sh" },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := r.Shell("true", change); err != nil {
				t.Fatal(err)
			}
			if r.Backend.Spec.Program == nil {
				t.Fatal("the backend was not told")
			}
			if diff := cmp.Diff(*r.Backend.Spec.Program, r.Backend.Command); diff != "" {
				t.Errorf("told (-), executed (+):\n%s", diff)
			}
		})
	}
}

func TestResultSaysWhetherItRanWarm(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	token := "tok" + "en-that-is-lent"
	r.Memory.Set("default", "TOKEN", []byte(token))
	r.Backend.Warm = true
	res, err := r.Shell("true", nil)
	if err != nil || !res.Warm || res.Cold != "" {
		t.Errorf("got %v, warm %v, cold %q", err, res.Warm, res.Cold)
	}
	if _, text := r.Rows(); !strings.Contains(text, `"warm":true`) {
		t.Errorf("the log does not say so:\n%s", text)
	}
	r.Backend.Warm, r.Backend.Cold = false, token+" is set"
	res, err = r.Shell("true", func(q *run.Request) { q.Secrets = []string{"TOKEN"} })
	if err != nil || res.Warm || res.Cold != "***REDACTED*** is set" {
		t.Errorf("got %v, warm %v, cold %q", err, res.Warm, res.Cold)
	}
}

func TestPoolsAreAddedUpByLanguage(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Backend.Ready = []backends.Pool{
		{Language: "python", RAM: 512 << 20, Ready: 2, Memory: 100, Hits: 8, Misses: 1, Cold: map[string]int64{"none was ready": 1}},
		{Language: "node", RAM: 512 << 20, Ready: 1, Memory: 50},
		{Language: "python", RAM: 64 << 20, Ready: 1, Memory: 10, Hits: 1, Misses: 2, Cold: map[string]int64{"none was ready": 1,
			"PYTHONPATH is set": 1}},
	}
	want := []Pool{
		{Backend: "double", Pool: backends.Pool{Language: "python", Ready: 3, Memory: 110, Hits: 9, Misses: 3,
			Cold: map[string]int64{"none was ready": 2, "PYTHONPATH is set": 1}}},
		{Backend: "double", Pool: backends.Pool{Language: "node", Ready: 1, Memory: 50}},
	}
	got := Now(r.Pipeline).Pools
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if got[0].HitRate() != 0.75 || got[1].HitRate() != 0 {
		t.Errorf("hit rates %v and %v, want 0.75 and 0", got[0].HitRate(), got[1].HitRate())
	}
	if n := r.Backend.Ready[0].Cold["none was ready"]; n != 1 {
		t.Errorf("the backend's own figures were changed: %d", n)
	}
}
