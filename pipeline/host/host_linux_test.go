package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
)

// newCommandRig is a pipeline whose operator allows these patterns, and a broker to ask people.
func newCommandRig(t *testing.T, allowed ...string) (*pipelinetest.Rig, *approval.Broker) {
	t.Helper()
	policy, err := host.NewPolicy(host.Rules{Allowed: allowed})
	if err != nil {
		t.Fatal(err)
	}
	var broker *approval.Broker
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) {
		broker = approval.New(approval.Config{Audit: c.Audit})
		c.Approvals, *pipeline.EnsureSettings[host.Config](c) = broker, host.Config{Enabled: true, Policy: policy, Output: 64}
	})
	t.Cleanup(func() { broker.Close() })
	return r, broker
}

func TestHostExec(t *testing.T) {
	r, _ := newCommandRig(t, "echo **", "ls **", "sleep *", "cat", "seq *")
	tests := []struct {
		name           string
		c              host.Exec
		ended          string
		exit           int
		stdout, stderr string
	}{
		{"a command", host.Exec{Command: "echo 'a  b' c"}, backends.EndedOK, 0, "a  b c\n", ""},
		{"words", host.Exec{Words: host.Words{"echo", "$(id)", "|", "a\"b"}}, backends.EndedOK, 0, "$(id) | a\"b\n", ""},
		{"input", host.Exec{Command: "cat", Stdin: strings.NewReader("in")}, backends.EndedOK, 0, "in", ""},
		{"no input", host.Exec{Command: "cat"}, backends.EndedOK, 0, "", ""},
		{"a failure", host.Exec{Command: "ls /nowhere/at/all"}, backends.EndedExit, 2, "", "cannot access"},
		{"too long", host.Exec{Command: "sleep 100", Timeout: 200 * time.Millisecond}, backends.EndedTimeout, 124, "", ""},
		{"too much", host.Exec{Command: "seq 1000"}, backends.EndedOK, 0, "1\n2\n3", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := hostExec(t.Context(), r.Pipeline, tt.c)
			if err != nil || res.Ended != tt.ended || res.ExitCode != tt.exit || !strings.HasPrefix(res.Stdout, tt.stdout) ||
				!strings.Contains(res.Stderr, tt.stderr) {
				t.Fatalf("got %+v, %v", res, err)
			}
			if tt.name == "too much" && (len(res.Stdout) != 64 || res.StdoutCut != 3893-64) {
				t.Errorf("%d bytes are kept, and %d are said to be gone", len(res.Stdout), res.StdoutCut)
			}
		})
	}
	_, text := r.Rows()
	for _, want := range []string{`"tool":"host_exec"`, `"pattern":"echo **"`, `"allowed_by":"configuration"`, `"program":"/usr/bin/`,
		`"what":"echo 'a  b' c"`, "execution.timeout"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log has no %s: %s", want, text)
		}
	}
}

// A command that exceeds its bounds says so, and the row names the mechanism of the bounds.
func TestHostBounds(t *testing.T) {
	cage := host.NewCage(true)
	defer cage.Close()
	r, _ := newCommandRig(t, "shuf -i 1-100000000")
	pipeline.PackageSettings[host.Config](r.Pipeline).Cage, pipeline.PackageSettings[host.Config](r.Pipeline).Bounds.RAM = cage, 64<<20
	res, err := hostExec(t.Context(), r.Pipeline, host.Exec{Command: "shuf -i 1-100000000"})
	_, text := r.Rows()
	if strings.Contains(text, `"bounds":"rlimits`) { // shuf is told that there is no more, and says so
		if err != nil || res.Ended == backends.EndedOK {
			t.Errorf("got %+v, %v", res, err)
		}
		hosttest.SkipMissing(t, "cgroup", "commands on the host have none here")
	}
	if err != nil || res.Ended != backends.EndedOOM || res.Limit != "ram" || res.ExitCode != 137 ||
		!strings.Contains(text, `"bounds":"cgroup v`) {
		t.Errorf("got %+v, %v, %s", res, err, text)
	}
}

func TestHostExecRefused(t *testing.T) {
	r, _ := newCommandRig(t, "echo *")
	for command, want := range map[string]string{
		// installed or not
		"echo a b": "not allowed:", "echo a | sh": "unquoted |", "python3 -c 1": "not allowed:", "nosuch": "no program",
		"echo \x1b": "nobody can see", "sandboxmcp approve x": "sandboxmcp",
	} {
		res, err := hostExec(t.Context(), r.Pipeline, host.Exec{Command: command})
		var e *pipeline.Error
		if !errors.As(err, &e) || !e.Denied || !strings.Contains(e.Reason, want) || e.Remedy.IsZero() || res.Ended != backends.EndedRefused {
			t.Errorf("%q: got %v, want %q", command, err, want)
		}
	}
	if kinds, text := r.Rows(); len(kinds) != 6 || strings.Count(text, "host_exec") < 6 {
		t.Errorf("the log has %v", kinds)
	}
	off := pipelinetest.NewRig(t, nil)
	if _, err := hostExec(t.Context(), off.Pipeline, host.Exec{Command: "echo a"}); err == nil || !strings.Contains(err.Error(), "off") {
		t.Errorf("host access is off, and: %v", err)
	}
}

// TestHostSecrets has a secret of the vault in the command, in both outputs, and in a refusal.
func TestHostSecrets(t *testing.T) {
	secret := "correct-horse-" + "battery-staple"
	r, _ := newCommandRig(t, "echo **", "ls **")
	r.Memory.Set("default", "KEY", []byte(secret))
	for _, command := range []string{"echo " + secret, "ls /" + secret, "nosuch-" + secret, "echo2 " + secret + " |", "uname " + secret,
		"echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + secret} {
		res, err := hostExec(t.Context(), r.Pipeline, host.Exec{Command: command})
		if output := res.Stdout + res.Stderr + res.Pattern + fmt.Sprint(res.Warnings); strings.Contains(output, secret[:14]) {
			t.Errorf("it is told: %q", output)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error tells it: %v", err)
		}
	}
	if _, err := host.AskFor(t.Context(), r.Pipeline, "", "command", "uname "+secret, ""); err == nil ||
		strings.Contains(err.Error(), secret) {
		t.Errorf("people are shown it: %v", err)
	}
	q, err := host.AskFor(t.Context(), r.Pipeline, "", "command", "uname -a", "because "+secret)
	if err != nil || strings.Contains(q.Reason, secret) {
		t.Errorf("people are shown it: %+v, %v", q, err)
	}
	if _, text := r.Rows(); strings.Contains(text, secret) {
		t.Errorf("the log has it: %s", text)
	}
}

// TestHostApproval follows a pattern from the question to the end of the approval.
func TestHostApproval(t *testing.T) {
	r, broker := newCommandRig(t)
	run := func(namespace, command string) error {
		_, err := hostExec(t.Context(), r.Pipeline, host.Exec{Namespace: namespace, Command: command})
		return err
	}
	q, err := host.AskFor(t.Context(), r.Pipeline, "mine", "command", "echo   approved *", "")
	if err != nil || q.What != "run echo approved *" {
		t.Fatalf("got %+v, %v", q, err)
	}
	if err := run("mine", "echo approved x"); err == nil {
		t.Fatal("it ran before anybody was asked")
	}
	p, err := broker.Open(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Answer(t.Context(), p.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]bool{"echo approved x": true, "/usr/bin/echo approved x": true, "echo approved": false,
		"echo approved x y": false, "echo approved -n": false, "echo other": false} {
		if err := run("mine", command); (err == nil) != want {
			t.Errorf("%s: %v, want it allowed: %v", command, err, want)
		}
	}
	if err := run("other", "echo approved x"); err == nil {
		t.Error("another namespace has the approval, too")
	}
	if list := host.AccessOf(r.Pipeline, "mine", ""); len(list) != 1 || list[0].Pattern != "echo approved *" ||
		list[0].From != host.Approval || list[0].Until.IsZero() {
		t.Errorf("listed is %+v", list)
	}
	if err := broker.Revoke(t.Context(), p.Question.ID, approval.Answer{By: approval.CommandLine()}); err != nil {
		t.Fatal(err)
	}
	if err := run("mine", "echo approved x"); err == nil {
		t.Error("what was taken back holds")
	}
	// Commands that a star does not cover stay refused, whoever approves them; so do commands that nobody has seen.
	for _, what := range []string{"run python3 **", "run git **", "run sh", "run sandboxmcp approve x", "run cat"} {
		if _, err := broker.Grant(t.Context(), approval.Question{Kind: approval.Host, What: what, Namespace: "mine"},
			approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"python3 -c 1", "git -c x log", "sandboxmcp approve x"} {
		if err := run("mine", command); err == nil {
			t.Errorf("%s runs", command)
		}
	}
	for command, want := range map[string]bool{"sh": false, "cat": false} {
		if err := run("mine", command); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if _, err := hostExec(t.Context(), r.Pipeline, host.Exec{Namespace: "mine", Command: command, Stdin: strings.NewReader("exit 0")}); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "leave the input out") {
			t.Errorf("%s with an input: %v, want it allowed: %v", command, err, want)
		}
	}
	for kind, pattern := range map[string]string{"command": "python3 **", "read": "relative", "write": "/no/such/directory"} {
		if _, err := host.AskFor(t.Context(), r.Pipeline, "", kind, pattern, ""); err == nil {
			t.Errorf("a person would be asked for %s %s", kind, pattern)
		}
	}
}

// TestHostTakenBack revokes approvals while the commands that they allow wait in the queue.
func TestHostTakenBack(t *testing.T) {
	r, broker := newCommandRig(t)
	dir := t.TempDir()
	r.Config.Queue = pipeline.NewQueue(1, 10)
	for what, do := range map[string]func() error{
		"run echo x": func() error { _, err := hostExec(t.Context(), r.Pipeline, host.Exec{Command: "echo x"}); return err },
		"write " + dir: func() error {
			_, err := writeHostFile(t.Context(), r.Pipeline, host.WriteFile{Path: dir + "/x", Content: []byte("x")})
			return err
		},
		"read " + dir: func() error {
			_, err := listHostDirectory(t.Context(), r.Pipeline, host.ListDirectory{Path: dir})
			return err
		},
	} {
		leave, err := r.Config.Queue.Acquire(t.Context(), "default", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := broker.Grant(t.Context(), approval.Question{Kind: approval.Host, What: what, Namespace: "default"}, approval.Answer{Allowed: true, By: approval.CommandLine()})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- do() }()
		hosttest.Until(t, "it waits", func() bool { return len(ended) > 0 || r.Load().Waiting > 0 })
		if err := broker.Revoke(t.Context(), g.Question.ID, approval.Answer{By: approval.CommandLine()}); err != nil {
			t.Fatal(err)
		}
		leave()
		var e *pipeline.Error
		if err := <-ended; !errors.As(err, &e) || !e.Denied {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
	}
}

// TestHostAsk has a person at the terminal, and asks for exactly the words.
func TestHostAsk(t *testing.T) {
	r, broker := newCommandRig(t)
	var asked string
	c := host.Exec{Words: host.Words{"echo", "a b", "*"}, Ask: func(ctx context.Context, p *approval.Pending) {
		asked = p.Question.What
		broker.Answer(ctx, p.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine(), Scope: approval.ScopeRun})
	}}
	res, err := hostExec(t.Context(), r.Pipeline, c)
	if err != nil || res.Stdout != "a b *\n" || asked != "run echo 'a b' '*'" {
		t.Errorf("got %q, %v, asked was %q", res.Stdout, err, asked)
	}
	if _, err := hostExec(t.Context(), r.Pipeline, host.Exec{Words: c.Words}); err == nil {
		t.Error("it holds for more than the one time")
	}
	c.Words, c.Stdin = host.Words{"sh"}, strings.NewReader("echo own") // of who is asked
	if res, err := hostExec(t.Context(), r.Pipeline, c); err != nil || asked != "run sh" || res.Stdout != "own\n" {
		t.Errorf("got %q, %v, asked was %q", res.Stdout, err, asked)
	}
	c.Words, asked = host.Words{"sandboxmcp", "approve", "x"}, ""
	if _, err := hostExec(t.Context(), r.Pipeline, c); err == nil || asked != "" {
		t.Errorf("a person was asked for %q: %v", asked, err)
	}
}

// TestHostCancelled has a caller that goes away.
func TestHostCancelled(t *testing.T) {
	r, _ := newCommandRig(t, "sleep *")
	ctx, cancel := context.WithCancel(t.Context())
	stdin := readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }) // is read once it has begun
	if res, err := hostExec(ctx, r.Pipeline, host.Exec{Command: "sleep 100", Stdin: stdin}); !errors.Is(err, context.Canceled) || res.Ended != backends.EndedCancelled {
		t.Errorf("got %+v, %v", res, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestHostNoLog runs nothing without a row.
func TestHostNoLog(t *testing.T) {
	r, _ := newCommandRig(t, "echo *")
	r.Config.Audit = nil
	if res, err := hostExec(t.Context(), r.Pipeline, host.Exec{Command: "echo x"}); err == nil || res.Stdout != "" {
		t.Errorf("got %q, %v", res.Stdout, err)
	}
}
