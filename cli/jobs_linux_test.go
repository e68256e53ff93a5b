package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// job is a program to run, and its expected outcome.
type job struct {
	name     string
	every    int // one of that many jobs; 0: shares the rest
	language string
	code     string
	with     map[string]any // further arguments; MARK in text is replaced by a word that is unique to the run
	ended    []string
	stdout   string                               // with MARK, too; "*" accepts anything
	cold     bool                                 // it can't be warm
	calls    func(s *measured, mark string) error // replaces the call
}

// leasedSecret is the name of the secret that jobs can lease.
const leasedSecret = "LENT"

var jobs = []job{
	{name: "python", language: "python", code: "import os, sys; print(sys.argv[1], os.environ['WORD'])", with: argsAndEnv,
		stdout: "MARK MARK\n"},
	{name: "node", language: "node", code: "console.log(process.env.WORD)", with: map[string]any{"env": map[string]any{"WORD": "MARK"}},
		stdout: "MARK\n"},
	{name: "shell", language: "shell", code: `echo "$1" "$WORD"`, with: argsAndEnv, stdout: "MARK MARK\n"},
	{name: "exits at once", language: "shell", code: "exit 3", ended: []string{"exit"}},
	{name: "session", every: 49, calls: callInSession},
	{name: "task", every: 51, calls: callAsTask},
	{name: "lists", every: 21, calls: callListTools},
	{name: "malformed", every: 25, calls: sendMalformed},
	{name: "cancelled", every: 35, calls: cancelCall},
	{name: "python, stdin", every: 11, language: "python", code: "print(input())", with: map[string]any{"stdin": "MARK"}, stdout: "MARK\n"},
	{name: "python, exits at once", every: 13, language: "python", code: "import os; os._exit(3)", ended: []string{"exit"}},
	{name: "secret", every: 7, language: "python", code: "import os; print(os.environ['" + leasedSecret + "'], flush=True)",
		with: map[string]any{"secrets": []string{leasedSecret}}, stdout: "***REDACTED***\n"},
	{name: "node, secret", every: 17, language: "node", code: "console.log(process.env." + leasedSecret + ")",
		with: map[string]any{"secrets": []string{leasedSecret}}, stdout: "***REDACTED***\n"},
	{name: "node, args", every: 61, language: "node", code: "console.log(process.argv[2], process.env.WORD)", with: argsAndEnv,
		stdout: "MARK MARK\n"},
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
	{name: "another size", every: 47, language: "python", code: "print('MARK')",
		with: map[string]any{"resource_limits": map[string]any{"max_ram_mb": 256}}, stdout: "MARK\n"},
	{name: "out of memory", every: 107, language: "python", code: "x = bytearray(1 << 30)",
		with: map[string]any{"resource_limits": map[string]any{"max_ram_mb": 64}}, ended: []string{"exit", "oom", "signal"}},
	{name: "PYTHONPATH", every: 53, language: "python", code: "import sys; print('/workspace/lib' in sys.path)",
		with: map[string]any{"env": map[string]any{"PYTHONPATH": "/workspace/lib"}}, stdout: "True\n", cold: true},
	{name: "large output", every: 59, language: "shell", code: "head -c 300000 /dev/zero | tr '\\0' x", stdout: "*"},
}

var (
	argsAndEnv = map[string]any{"args": []string{"MARK"}, "env": map[string]any{"WORD": "MARK"}}
	brief      = map[string]any{"timeout": 0.6}
	anyEnd     = []string{"ok", "exit", "signal", "timeout", "limit", "oom"}
)

// everyJob consecutive numbers include each job.
const everyJob = 110

// jobOf returns the job of a number.
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

// runOn runs the job and returns an error for an unexpected outcome.
func (j job) runOn(s *measured, i int) error {
	mark := fmt.Sprintf("word-%d", i)
	if j.calls != nil {
		if err := j.calls(s, mark); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		return nil
	}
	arguments := replaceMark(j.with, mark).(map[string]any)
	arguments["language"], arguments["code"] = j.language, strings.ReplaceAll(j.code, "MARK", mark)
	got, err := s.call("execute_code", arguments)
	if err != nil && slices.Contains(j.ended, "timeout") && strings.Contains(err.Error(), "the program could not be started: ") {
		return nil // on a busy machine, its time can be up before it starts
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

// replaceMark returns a copy of v in which MARK is replaced.
func replaceMark(v any, mark string) any {
	switch v := v.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, one := range v {
			all[name] = replaceMark(one, mark)
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

func callInSession(s *measured, mark string) error {
	made, err := s.call("create_session", map[string]any{"language": "shell"})
	if err != nil {
		return err
	}
	for _, code := range []string{"word=" + mark, "echo $word"} {
		got, err := s.call("execute_code", map[string]any{"session_id": made.SessionID, "code": code})
		if err != nil || code == "echo $word" && got.Stdout != mark+"\n" {
			return fmt.Errorf("%q, %v", got.Stdout, err)
		}
	}
	_, err = s.call("terminate_session", map[string]any{"session_id": made.SessionID})
	return err
}

// callAsTask makes a call of the protocol 2026-07-28 that becomes a task, and fetches its result.
func callAsTask(s *measured, mark string) error {
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}},
	}
	arguments := map[string]any{"language": "shell", "code": "sleep 0.7; echo " + mark}
	result, err := s.request("tools/call", map[string]any{"name": "execute_code", "arguments": arguments, "_meta": meta})
	for deadline := time.Now().Add(time.Minute); err == nil; time.Sleep(10 * time.Millisecond) {
		var task struct {
			TaskID, Status string
			Result         json.RawMessage
		}
		switch err := json.Unmarshal(result, &task); {
		case err != nil || task.Status != "working" && !strings.Contains(string(task.Result), mark) || time.Now().After(deadline):
			return fmt.Errorf("%v: %s", err, result)
		case task.Status != "working":
			return nil
		}
		result, err = s.request("tasks/get", map[string]any{"taskId": task.TaskID, "_meta": meta})
	}
	return err
}

func callListTools(s *measured, _ string) error {
	for _, method := range []string{"ping", "tools/list", "resources/list", "resources/templates/list"} {
		if result, err := s.request(method, map[string]any{}); err != nil || result == nil {
			return fmt.Errorf("%s: %s, %w", method, result, err)
		}
	}
	for _, tool := range []string{"inspect_state", "audit_execution", "list_runtimes"} {
		var arguments map[string]any
		if tool == "list_runtimes" { // an ordinary user's Podman would start a process that stays
			arguments = map[string]any{"backend": "process"}
		}
		if _, err := s.call(tool, arguments); err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
	}
	return nil
}

// sendMalformed sends invalid messages, which are answered without an id, and invalid requests.
func sendMalformed(s *measured, mark string) error {
	if err := s.write([]byte("no JSON\n[]\n{\"id\":{}}\n\xff\n" + strings.Repeat("[", 20000) + "\n")); err != nil {
		return err
	}
	for method, params := range map[string]map[string]any{
		"no/such": {}, "tasks/get": {"taskId": mark}, "resources/read": {"uri": "sandbox://runs/" + mark},
		"tools/call": {"name": mark}, "logging/setLevel": {"level": mark}, "prompts/get": {"name": mark},
	} {
		if result, err := s.request(method, params); err != nil || result != nil {
			return fmt.Errorf("%s: %s, %w", method, result, err)
		}
	}
	if got, err := s.call("execute_code", map[string]any{"cod": mark}); err == nil {
		return fmt.Errorf("got %+v", got)
	}
	return nil
}

// cancelCall starts a program and cancels the request.
func cancelCall(s *measured, mark string) error {
	line := `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"execute_code","arguments":{"language":"shell","code":"sleep 1000"}}}` + "\n"
	if err := s.write(fmt.Appendf(nil, line, mark)); err != nil {
		return err
	}
	if _, err := s.call("sandbox_stats", nil); err != nil { // gives the program time to start
		return err
	}
	return s.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`+"\n", mark))
}
