package run_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func TestUnknownTokens(t *testing.T) {
	for _, tt := range []struct {
		policy                     string
		visible, notified, withhed bool
	}{{"", true, true, false}, {pipeline.UnknownWarn, true, true, false}, {pipeline.UnknownMask, false, true, true},
		{pipeline.UnknownOff, true, false, false}} {
		t.Run("policy "+tt.policy, func(t *testing.T) {
			r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.UnknownTokens = tt.policy })
			dir := t.TempDir()
			// Not in one piece in the code, which may be captured.
			code := "A=" + stranger[:9] + "; B=" + stranger[9:] + "; printf %s $A; sleep 0.05; echo $B; echo $A$B >&2; echo $A$B > left"
			res, err := r.Shell(code, func(q *run.Request) { q.Artifacts = dir })
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"stdout": res.Stdout, "stderr": res.Stderr} {
				if got := strings.Contains(text, stranger); got != tt.visible {
					t.Errorf("%s is %q", name, text)
				}
			}
			reported := strings.Contains(fmt.Sprint(res.Warnings), "GitHub")
			_, rows := r.Rows()
			if reported != tt.notified || strings.Contains(rows, `"unknown_tokens":["a GitHub token`) != tt.notified {
				t.Errorf("warnings %v, rows:\n%s", res.Warnings, rows)
			}
			if all, _ := json.Marshal(res); strings.Contains(string(all), stranger) && !tt.visible {
				t.Errorf("the result has it: %s", all)
			}
			_, err = os.Stat(filepath.Join(dir, "left"))
			if (err != nil) != tt.withhed || (res.Artifacts[0].Withheld != "") != tt.withhed {
				t.Errorf("artifact %+v, %v", res.Artifacts[0], err)
			}
		})
	}
}
