package cli

import (
	"fmt"
	"slices"
	"strings"
)

// A job is a program to run, and what must become of it.
type job struct {
	name     string
	every    int // it is one of so many jobs; 0 for those that share the rest
	language string
	code     string
	with     map[string]any // more arguments; MARK in text stands for a word that only this run knows
	ended    []string
	stdout   string // MARK likewise; "*" is anything
	cold     bool   // it can't be warm
}

// loan is the secret that jobs can have.
const loan = "LENT"

var jobs = []job{
	{name: "python", language: "python", code: "import os, sys; print(sys.argv[1], os.environ['WORD'])", with: told, stdout: "MARK MARK\n"},
	{name: "node", language: "node", code: "console.log(process.env.WORD)", with: map[string]any{"env": map[string]any{"WORD": "MARK"}}, stdout: "MARK\n"},
	{name: "shell", language: "shell", code: `echo "$1" "$WORD"`, with: told, stdout: "MARK MARK\n"},
	{name: "exits at once", language: "shell", code: "exit 3", ended: []string{"exit"}},
	{name: "session", every: 49, calls: inSession},
	{name: "task", every: 51, calls: asTask},
	{name: "lists", every: 21, calls: lists},
	{name: "malformed", every: 25, calls: malformed},
	{name: "cancelled", every: 35, calls: cancelled},
	{name: "python, stdin", every: 11, language: "python", code: "print(input())", with: map[string]any{"stdin": "MARK"}, stdout: "MARK\n"},
	{name: "python, exits at once", every: 13, language: "python", code: "import os; os._exit(3)", ended: []string{"exit"}},
	{name: "secret", every: 7, language: "python", code: "import os; print(os.environ['" + loan + "'], flush=True)",
		with: map[string]any{"secrets": []string{loan}}, stdout: "***REDACTED***\n"},
	{name: "node, secret", every: 17, language: "node", code: "console.log(process.env." + loan + ")",
		with: map[string]any{"secrets": []string{loan}}, stdout: "***REDACTED***\n"},
	{name: "node, args", every: 61, language: "node", code: "console.log(process.argv[2], process.env.WORD)", with: told, stdout: "MARK MARK\n"},
	{name: "files", every: 19, language: "shell", code: "cat data.txt; echo MARK >left.txt",
		with: map[string]any{"files": map[string]any{"data.txt": "MARK\n"}}, stdout: "MARK\n"},
	{name: "leaves processes", every: 23, language: "shell", code: "sleep 1000 & setsid sleep 1000 & echo MARK", stdout: "MARK\n"},
	{name: "python, leaves processes", every: 29, language: "python",
		code: "import os, time\nfor _ in range(3):\n  if os.fork() == 0: os.setsid(); time.sleep(1000)\nprint('MARK')", stdout: "MARK\n"},
	{name: "killed", every: 31, language: "shell", code: "kill -9 $$", ended: []string{"signal"}},
	{name: "python, killed", every: 37, language: "python", code: "import os; os.kill(os.getpid(), 11)", ended: []string{"signal"}},
	{name: "timeout", every: 41, language: "shell", code: "sleep 1000", with: brief, ended: []string{"timeout"}},
	{name: "python, timeout", every: 43, language: "python", code: "while True: pass", with: brief, ended: []string{"timeout"}},
	{name: "node, timeout", every: 101, language: "node", code: "setInterval(() => 0, 1000)", with: brief, ended: []string{"timeout"}},
	{name: "fork bomb", every: 97, language: "shell", code: ":(){ :|:& };:; sleep 0.1", with: brief, ended: anyEnd, stdout: "*"},
	{name: "python, fork bomb", every: 103, language: "python", code: "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
		with: brief, ended: anyEnd, stdout: "*"},
	{name: "another size", every: 47, language: "python", code: "print('MARK')", with: map[string]any{"resource_limits": map[string]any{"max_ram_mb": 256}}, stdout: "MARK\n"},
	{name: "out of memory", every: 107, language: "python", code: "x = bytearray(1 << 30)",
		with: map[string]any{"resource_limits": map[string]any{"max_ram_mb": 64}}, ended: []string{"exit", "oom", "signal"}},
	{name: "PYTHONPATH", every: 53, language: "python", code: "import sys; print('/workspace/lib' in sys.path)",
		with: map[string]any{"env": map[string]any{"PYTHONPATH": "/workspace/lib"}}, stdout: "True\n", cold: true},
	{name: "large output", every: 59, language: "shell", code: "head -c 300000 /dev/zero | tr '\\0' x", stdout: "*"},
}

var (
	told   = map[string]any{"args": []string{"MARK"}, "env": map[string]any{"WORD": "MARK"}}
	brief  = map[string]any{"timeout": 0.6}
	anyEnd = []string{"ok", "exit", "signal", "timeout", "limit", "oom"}
)

// everyJob is how many numbers in a row have each job among them.
const everyJob = 110

// jobOf deals the jobs out: the same numbers get the same ones.
func jobOf(i int) job {
	common := 0
	for n, j := range jobs {
		if j.every == 0 {
			common++
		} else if i%j.every == n%j.every {
			return j
		}
	}
	return jobs[i%common]
}

// do runs the job, and says what is wrong with what became of it.
func (j job) do(s *measured, i int) error {
	mark := fmt.Sprintf("word-%d", i)
	arguments := marked(j.with, mark).(map[string]any)
	arguments["language"], arguments["code"] = j.language, strings.ReplaceAll(j.code, "MARK", mark)
	got, err := s.call("execute_code", arguments)
	if err != nil && slices.Contains(j.ended, "timeout") && strings.Contains(err.Error(), "the program could not be started: ") {
		return nil // on a busy machine, its time can be up before it begins
	}
	if err != nil {
		return fmt.Errorf("%s: %w", j.name, err)
	}
	ended := j.ended
	if ended == nil {
		ended = []string{"ok"}
	}
	if !slices.Contains(ended, got.Ended) {
		return fmt.Errorf("%s ended %q, want %q: %s", j.name, got.Ended, ended, got.Text)
	}
	if want := strings.ReplaceAll(j.stdout, "MARK", mark); want != "*" && want != got.Stdout && !slices.Contains(j.ended, "timeout") {
		return fmt.Errorf("%s wrote %q, want %q", j.name, got.Stdout, want)
	}
	if j.cold && got.Warm {
		return fmt.Errorf("%s was warm", j.name)
	}
	return nil
}

// marked is a copy of v in which MARK is replaced.
func marked(v any, mark string) any {
	switch v := v.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, one := range v {
			all[name] = marked(one, mark)
		}
		return all
	case []string:
		all := slices.Clone(v)
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], "MARK", mark)
		}
		return all
	case string:
		return strings.ReplaceAll(v, "MARK", mark)
	}
	return v
}
