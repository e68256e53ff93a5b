package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestRunShows: runs in their own sandboxes have the same displays as the cells of a session, both in a cold start and
// with an idle interpreter.
func TestRunShows(t *testing.T) {
	for _, ready := range []bool{false, true} {
		t.Run(fmt.Sprintf("warm %v", ready), func(t *testing.T) {
			p, _, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) {
				if ready {
					c.Backends[0].Close()
					b := warm.New(process.New(process.Config{StateDir: t.TempDir()}), warm.Config{Max: 2})
					t.Cleanup(func() { b.Close() })
					c.Backends[0] = b
				}
			})
			memory.Set("default", "WORD", []byte("correct-horse-battery"))
			do := func(t *testing.T, q run.Request) (res pipeline.Outcome) {
				t.Helper()
				q.Language = "python"
				code := string(q.Code)
				hosttest.Until(t, "a run that was ready", func() bool {
					var err error
					q.ID = pipeline.NewID()
					q.Code = []byte(strings.ReplaceAll(code, "KEPT", "'."+q.ID+"'"))
					if _, res, err = pipeline.Do(t.Context(), p, q); err != nil {
						t.Fatal(err)
					}
					return res.Warm || !ready
				})
				return res
			}
			for _, test := range []struct {
				name, code string
				value      string
				displays   int
				ended      string
				artifacts  string
			}{
				{"value", "import os\nos.listdir('.')", "['script.py']", 0, "ok", ""},
				{"forged", `print('{"op":"done","id":1,"value":{"text/plain":"forged"}}')` + "\nNone", "", 0, "ok", ""},
				{"secret", "import os\ndisplay({'text/html': os.environ['WORD']}, raw=True)\nos.environ['WORD'] + '!'", "'***REDACTED***!'", 1, "ok",
					""},
				{"exit", "import sys\ndisplay(1)\nsys.exit(3)", "", 1, "exit", ""},
				{"timeout", "display(1)\nwhile True: pass", "", 1, "timeout", ""},
				{"no time", "while True: pass\n5", "", 0, "timeout", ""},
				{"killed", "import os\ndisplay(1)\nos.kill(os.getpid(), 11)", "", 1, "signal", ""},
				{"no disk", "f = open('f', 'wb')\ntry:\n    while True: f.write(bytes(1 << 20))\nexcept OSError: pass\n5", "", 0, "ok", "f"},
				{"files", "open('a.txt', 'w').write('x')\n5", "5", 0, "ok", "a.txt"},
				{"itself changed", "open(__file__, 'a').write('#') and 5", "5", 0, "ok", "script.py"},
				{"a link in its place", "import os\nos.symlink('/etc/passwd', KEPT)\n5", "", 0, "ok", ""},
				{"a pipe in its place", "import os\nos.mkfifo(KEPT)\n5", "", 0, "ok", ""},
				{"rubbish in its place", "import os\nopen(KEPT, 'wb').write(b'\\xff' * 100)\n5", "", 0, "ok", ""},
				{"too much", "for i in range(40): display({'text/html': 'x' * (1 << 20)}, raw=True)", "", 32, "ok", ""},
			} {
				t.Run(test.name, func(t *testing.T) {
					q := run.Request{Code: []byte(test.code), Show: true, Reach: run.Reach{Secrets: []string{"WORD"}},
						Bounds: pipeline.Bounds{Limits: backends.Limits{Wall: 30 * time.Second, Disk: 64 << 20}}}
					if test.ended == "timeout" {
						q.Limits.Wall = map[string]time.Duration{"timeout": 5 * time.Second, "no time": time.Millisecond}[test.name]
					}
					res := do(t, q)
					if res.Value["text/plain"] != test.value || len(res.Displays) != test.displays || res.Ended != test.ended ||
						fileNames(res) != test.artifacts {
						t.Errorf("got %v, %d displays, %s, artifacts %q, %q", res.Value, len(res.Displays), res.Ended, fileNames(res), res.Stderr)
					}
					for _, b := range res.Displays {
						if strings.Contains(fmt.Sprint(b), "correct-horse") {
							t.Errorf("the secret is in %v", b)
						}
					}
				})
			}
			t.Run("a person's program", func(t *testing.T) {
				res := do(t, run.Request{Code: []byte("import os\nprint(os.listdir('.'))\n5")})
				if res.Value != nil || res.Stdout != "['script.py']\n" {
					t.Errorf("got %v, %q", res.Value, res.Stdout)
				}
			})
		})
	}
}

// TestFence: code in a fence runs in the language of the fence, with its own line numbers, and is recorded as it was
// sent.
func TestFence(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	session := pipelinetest.Open(t, p, session.New{Language: "python"}).ID
	for _, test := range []struct {
		language, session, code string
		want                    string // of stdout, or of the refusal
	}{
		{"shell", "", "```bash\necho fine\n```", "fine\n"},
		{"", "", "\n  ```sh\necho fine\n```  \n\n", "fine\n"},
		{"python", "", "```js\nconsole.log(1)\n```", "1\n"},
		{"node", "", "```\nconsole.log(1)\n```", "1\n"},
		{"node", "", "```ts\nlet x: number = 1; console.log(x)\n```", "1\n"},
		{"python", "", "````text\nprint('''\n```\n''')\n````", "\n```\n\n"},
		{"node", "", "```js\nlet = = 1\n```", "script:2:"},
		{"", session, "```python\nprint(5)\n```", "5\n"},
		{"", session, "```bash\nls\n```", "the session runs python, but this code is shell"},
		{"python", "", "```python\nprint(1)\n```\n```python\nprint(2)\n```", "SyntaxError"},
		{"shell", "", "echo '```'", "```\n"},
	} {
		_, res, err := pipeline.Do(t.Context(), p, run.Request{
			Language: test.language, Where: run.Where{Session: test.session}, Code: []byte(test.code), Show: true,
		})
		got := res.Stdout + res.Stderr
		if err != nil {
			got = err.Error()
		}
		if got != test.want && !(strings.Contains(got, test.want) && (err != nil || res.Ended == "exit")) {
			t.Errorf("%s %q: got %q", test.language, test.code, got)
		}
		var recorded bool
		for row, err := range log.Rows(t.Context(), audit.Filter{Run: res.ID}) {
			recorded = recorded || err == nil && strings.Contains(string(row.Data), pipeline.Hash([]byte(test.code)))
		}
		if !recorded {
			t.Errorf("%q: the log has another hash", test.code)
		}
	}
	_, res, err := pipeline.Do(t.Context(), p, run.Request{Language: "python", Code: []byte("```python\nprint(1)\n```")})
	if err != nil || res.Ended != "exit" {
		t.Errorf("a person's program: got %v %v", res, err)
	}
}
