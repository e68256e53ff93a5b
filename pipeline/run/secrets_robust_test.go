package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Programs choose more texts than those that they print.
func TestNamesThatProgramsChooseAreRedacted(t *testing.T) {
	p, _, memory := pipelinetest.NewReal(t, nil)
	word, digits := strings.Repeat("Zq7vXw", 4), strings.Repeat("98765", 4)
	memory.Set("default", "WORD", []byte(word))
	memory.Set("default", "DIGITS", []byte(digits))
	s := pipelinetest.Open(t, p, session.New{})
	secrets := func(q *run.Request) { q.Secrets = []string{"WORD", "DIGITS"} }
	for _, test := range []struct{ name, code string }{
		{"type of a display", "import os\nW = os.environ['WORD']\nclass A:\n    def _repr_mimebundle_(self, *a, **k): return {'text/plain': " +
			"'x', 'text/' + W: 'y'}\ndisplay(A()); A()"},
		{"type of a variable", "obj = type(W, (), {})()"},
		{"variable that is cut within it", "del obj; cut = 'a' * 183 + W"},
		{"value that is cut within it", "'a' * (256 * 1024 - 11) + W"},
		{"message that is cut within it", "raise ValueError('a' * (16 * 1024 - 10) + W)"},
		{"traceback that is cut within it", "raise ValueError('a\\n' * 4000 + 'b' * 400 + W * 2 + 'c' * 24000)"},
		{"frame that can't be read", "import struct, time\nd = b'{\"op\":\"done\",\"id\":%s}' % os.environ['DIGITS'].encode()\n" +
			"for fd in (1003, 503, 253, 103):\n    try:\n        os.write(fd, struct.pack('>I', len(d)) + d)\n    except OSError: pass\ntime.sleep(10)"},
		{"after that", "1"},
	} {
		res := pipelinetest.Cell(t, p, s.ID, test.code, secrets)
		state, err := session.Inspect(t.Context(), p, "", s.ID)
		if err != nil {
			t.Fatal(err)
		}
		reported, err := json.Marshal([]any{res, state, session.List(p, "")})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{word[:8], digits[:10]} {
			if i := strings.Index(string(reported), part); i >= 0 {
				t.Errorf("%s: a secret is in %s", test.name, reported[max(0, i-80):i+len(part)])
			}
		}
	}
	info, err := session.InfoOf(p, "", s.ID)
	if err != nil || len(info.Restarts) != 1 {
		t.Errorf("restarts %v, %v; want the one for the frame", info.Restarts, err)
	}
}

// A display of a cell costs memory, even if it is empty.
func TestEmptyDisplaysAreBounded(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	s := pipelinetest.Open(t, p, session.New{})
	res := pipelinetest.Cell(t, p, s.ID, "for i in range(70_000): display({'text/plain': ''}, raw=True)", nil)
	if n := len(res.Displays); n == 0 || n > run.MaxDisplays/output.DisplayOverhead+1 {
		t.Errorf("%d displays are in the result, want at most %d", n, run.MaxDisplays/output.DisplayOverhead+1)
	}
	if last := res.Displays[len(res.Displays)-1]; len(last) != 1 || !strings.Contains(kernel.Bundle(last)["text/plain"], "omitted") {
		t.Errorf("the last one is %v", last)
	}
}
