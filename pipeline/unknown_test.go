package pipeline

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stranger is a token that is in no vault, made from pieces.
var stranger = "gh" + "p_" + "Zk3vQ9xL1mW7" + "rT5yB2nC8dF4" + "hJ6gP0sA1uE3"

func TestUnknownTokens(t *testing.T) {
	for _, tt := range []struct {
		policy                     string
		visible, notified, withhed bool
	}{{"", true, true, false}, {UnknownWarn, true, true, false}, {UnknownMask, false, true, true}, {UnknownOff, true, false, false}} {
		t.Run("policy "+tt.policy, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Unknown = tt.policy })
			dir := t.TempDir()
			// Not in one piece in the code, which may be captured.
			code := "A=" + stranger[:9] + "; B=" + stranger[9:] + "; printf %s $A; sleep 0.05; echo $B; echo $A$B >&2; echo $A$B > left"
			res, err := r.shell(code, func(q *Request) { q.Artifacts = dir })
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"stdout": res.Stdout, "stderr": res.Stderr} {
				if got := strings.Contains(text, stranger); got != tt.visible {
					t.Errorf("%s is %q", name, text)
				}
			}
			reported := strings.Contains(fmt.Sprint(res.Warnings), "GitHub")
			_, rows := r.rows()
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
