package run_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// perlKernel is perl with the kernel of the examples, or with a test's own driver.
func perlKernel(t testing.TB, driver string) pipeline.Runtime {
	t.Helper()
	if containment.MissingProgram("process", []string{"perl"}) != "" || containment.MissingProgram("process", []string{"sh"}) != "" {
		hosttest.SkipMissing(t, "perl", "it is not installed")
	}
	if driver == "" {
		text, err := os.ReadFile("../../cli/examples/kernel.pl")
		if err != nil {
			t.Fatal(err)
		}
		driver = string(text)
	}
	own := perl
	own.Kernel, own.Driver = []string{"perl", "{driver}"}, driver
	return own
}

// TestOwnKernel: a session of an operator's language can do all that a session of Python can.
func TestOwnKernel(t *testing.T) {
	p, log, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Runtimes = []pipeline.Runtime{perlKernel(t, ""), cee} })
	s := pipelinetest.Open(t, p, session.New{Language: "Perl", Env: []string{"OF_ALL=é"}})
	if s.Language != "perl" || len(s.Layers) == 0 {
		t.Errorf("got %+v", s)
	}
	value := "kept" + "-from-" + "them"
	memory.Set("default", "TOKEN", []byte(value))
	for _, c := range []struct{ code, want string }{
		{"use strict;\nmy $x = 6; my @l = (1, 2);", `ok 0 "" ""`},
		{"use strict;\n$x * 7 + @l", `ok 0 "" "" value 44`},
		{"print \"hé $ENV{OF_ALL}\\n\"; print STDERR 'err'; [1, {a => 'é'}]", "ok 0 \"hé é\\n\" \"err\" value [\n  1,\n  {\n    'a' => 'é'"},
		{"display('shown'); display(2); undef", `ok 0 "" "" value undef display shown display 2`},
		{"sub f { die 'oops' }\nsub g { f(@_) }\ng(1)", `exit 1 "" "" die: "oops at cell 5 line 1.\n" "oops at cell 5 line 1.\n  in main::f, called at cell 5 line 2\n  in main::g, called at cell 5 line 3\n"`},
		{"print 'no'; (", `exit 1 "" "" die: "syntax error at cell 6 line 1, at EOF`},
		{"print 'before'; exit 7", `exit 7 "before" ""`},
		{"exit", `ok 0 "" ""`},
		{"```perl\n$x\n```", `ok 0 "" "" value 6`},
		{"print $ENV{TOKEN}; $ENV{TOKEN}", `ok 0 "***REDACTED***" "" value ***REDACTED***`},
		{"open my $f, '>', 'left'; print $f 'file'; `cat left; echo \\$\\$ > pid; exit 3`; close $f; $? >> 8", `ok 0 "" "" value 3`},
		{"# nothing", `ok 0 "" ""`},
	} {
		res := pipelinetest.Cell(t, p, s.ID, c.code, func(q *run.Request) {
			q.Show = true
			if strings.Contains(c.code, "TOKEN") {
				q.Secrets = []string{"TOKEN"}
			}
		})
		if got := textOf(res); !strings.HasPrefix(got, c.want) || res.Language != "perl" || res.Session != s.ID {
			t.Errorf("%s\ngot  %s\nwant %s", c.code, got, c.want)
		}
	}
	// Output comes while code runs, and it can be interrupted, also where a program has its own mind.
	came := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	_, res, err := pipeline.Do(ctx, p, run.Request{
		Where: run.Where{Session: s.ID}, Code: []byte("print \"begun\\n\"; sleep 1 while 1"),
		Streams: run.Streams{Stdout: pipelinetest.WriterFunc(func([]byte) { close(came) })},
	})
	if err != nil || res.Ended != backends.EndedCancelled || res.StateLost != "" || res.Error == nil || res.Error.Message != "interrupted\n" {
		t.Errorf("interrupted: %v %s", err, textOf(res))
	}
	if got := textOf(pipelinetest.Cell(t, p, s.ID, "1 while 1", func(q *run.Request) { q.Limits.Wall = 300 * time.Millisecond })); !strings.HasPrefix(got, `timeout 124 "" "" die: "interrupted`) || strings.Contains(got, "lost") {
		t.Errorf("endless: %s", got)
	}
	// The session's variables can be carried out and in, and are listed.
	if _, _, err := pipeline.Do(t.Context(), p, session.Bridge{Session: s.ID, Key: "rows", Value: []byte(`[1, {"a": "é"}]`)}); err != nil {
		t.Error(err)
	}
	if got := textOf(pipelinetest.Cell(t, p, s.ID, "print $rows->[1]{a}", nil)); got != `ok 0 "é" ""` {
		t.Errorf("bridged: %s", got)
	}
	python := pipelinetest.Open(t, p, session.New{})
	if _, _, err := pipeline.Do(t.Context(), p, session.Bridge{From: s.ID, Session: python.ID, Key: "rows"}); err != nil {
		t.Error(err)
	}
	if got := textOf(pipelinetest.Cell(t, p, python.ID, "rows", nil)); !strings.Contains(got, "value [1, {'a': 'é'}]") {
		t.Errorf("bridged to Python: %s", got)
	}
	state, err := session.Inspect(t.Context(), p, "default", s.ID)
	if err != nil || state.Note != "" || len(state.Variables) != 3 || state.Variables[2].Name != "x" || state.Variables[2].Text != "6" {
		t.Errorf("inspected: %v %q %+v", err, state.Note, state.Variables)
	}
	// A context in another session is one more.
	_, made, err := pipeline.Do(t.Context(), p, session.NewContext{Session: python.ID, ID: "beside", Language: "perl"})
	if err != nil {
		t.Fatal(err, made)
	}
	in := func(q *run.Request) { q.Context = "beside" }
	pipelinetest.Cell(t, p, python.ID, "my $x = 'its own'", in)
	if got := textOf(pipelinetest.Cell(t, p, python.ID, "$x . getppid", in)); !strings.HasPrefix(got, `ok 0 "" "" value its own`) {
		t.Errorf("beside: %s", got)
	}
	if res := pipelinetest.Cell(t, p, python.ID, "$ENV{ONCE}", func(q *run.Request) { in(q); q.Env, q.EnvOnce = []string{"ONCE=1"}, true }); len(res.Warnings) != 1 || res.Value["text/plain"] != "1" {
		t.Errorf("a variable for once: %v %s", res.Warnings, textOf(res))
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.EndContext{Session: python.ID, Context: "beside", Restart: true}); err != nil {
		t.Error(err)
	}
	if got := textOf(pipelinetest.Cell(t, p, python.ID, "$x", in)); got != `ok 0 "" "" value undef` {
		t.Errorf("restarted: %s", got)
	}
	if _, err := pipelinetest.CloseSession(t.Context(), p, "", s.ID); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(pipelinetest.Rows(t, log, "session.created"), "\n"); !strings.Contains(got, `"language":"perl"`) {
		t.Errorf("the log has %s", got)
	}
	if got := strings.Join(pipelinetest.Rows(t, log, "execution.started"), "\n"); strings.Count(got, `"language":"perl"`) < 12 {
		t.Errorf("the log has %s", got)
	}
}

// TestOwnKernelRefused is about sessions that can't be had.
func TestOwnKernelRefused(t *testing.T) {
	none := pipeline.Runtime{Name: "none", Extensions: []string{".none"}, Command: []string{"perl"}, Kernel: []string{"no-such-program"}}
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Runtimes = []pipeline.Runtime{perlKernel(t, ""), cee, none} })
	s := pipelinetest.Open(t, p, session.New{Language: "perl"})
	python := pipelinetest.Open(t, p, session.New{})
	for want, q := range map[string]doing{
		"the language has no kernel (run it without a session, or set a kernel in runtimes.c.kernel in the configuration)": doingOf(session.New{Language: "C"}),
		"has no kernel":                      doingOf(session.NewContext{Session: python.ID, Language: "c"}),
		"none needs no-such-program":         doingOf(session.New{Language: "none"}),
		"the session runs perl":              doingOf(run.Request{Where: run.Where{Session: s.ID}, Language: "python", Code: []byte("1")}),
		"runs perl, but this code is python": doingOf(run.Request{Where: run.Where{Session: s.ID}, Show: true, Code: []byte("```python\n1\n```")}),
		"runs python, but this code is perl": doingOf(run.Request{Where: run.Where{Session: python.ID}, Language: "perl", Code: []byte("1")}),
		"runs perl, but this code is c":      doingOf(run.Request{Where: run.Where{Session: s.ID}, Show: true, Code: []byte("```c\n1\n```")}),
		"be checked without running":         doingOf(run.Request{Where: run.Where{Session: s.ID}, Language: "perl", CheckOnly: true, Code: []byte("1")}),
		"is empty":                           doingOf(run.Request{Where: run.Where{Session: s.ID}}),
		"not perl":                           doingOf(session.New{Language: "perl", Tools: []session.Tool{{Name: "f"}}}),
		`has no variable "nope"`:             doingOf(session.Bridge{From: s.ID, Session: python.ID, Key: "nope"}),
		"use python, node, shell or r (or one of the operator's own: none, perl)": doingOf(session.New{Language: "cobol"}),
	} {
		_, err := q(t.Context(), p)
		if e, _ := errors.AsType[*pipeline.Error](err); e == nil || !e.Denied || !strings.Contains(e.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	probe, err := containment.Probe(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range probe.Runtimes {
		if want, is := map[string]string{"perl": "with sessions", "c": "without sessions", "none": "names no-such-program"}[r.Name]; is && !strings.Contains(r.Why.String(), want) {
			t.Errorf("%s: %s", r.Name, r.Why)
		}
	}
}

// TestOwnKernelThatFails is about kernels that are none: there is no session then, and the reason names the key.
func TestOwnKernelThatFails(t *testing.T) {
	for want, driver := range map[string]string{
		"it ended (exit, exit code 3) before it was ready: why": `print STDERR "why"; exit 3`,
		"it ended (ok, exit code 0) before it was ready":        `1`,
		"protocol: a line that can't be read":                   `open $out, ">&=3"; $out->autoflush; print $out "hello\n"; sleep 1 while 1`,
		`the driver began with "done"`:                          `open $out, ">&=3"; $out->autoflush; print $out qq({"op":"done","id":1}\n); sleep 1 while 1`,
		"it was not ready after 1 seconds":                      `$SIG{INT} = $SIG{TERM} = "IGNORE"; sleep 1 while 1`,
		"the interpreter closed its channel":                    `use POSIX; POSIX::close(3); sleep 1 while 1`,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Runtimes = []pipeline.Runtime{perlKernel(t, driver)} })
			limits := pipeline.Bounds{}
			if strings.Contains(want, "1 seconds") {
				limits.Wall = time.Second
			}
			_, err := pipelinetest.OpenSession(t.Context(), p, session.New{Language: "perl", Limits: limits})
			if e, _ := errors.AsType[*pipeline.Error](err); e == nil || !e.Denied || !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), "runtimes.perl.kernel") {
				t.Errorf("%s: got %v", driver, err)
			}
			if got := session.List(p, ""); len(got) != 0 || len(pipelinetest.Rows(t, log, "session.created")) != 0 {
				t.Errorf("%s: there is a session: %v", driver, got)
			}
		})
	}
}

// crude is a kernel that evaluates its cells, and does nothing else well.
const crude = `use JSON::PP; open $in, "<&=3"; open $out, ">&=3"; $out->autoflush; print $out qq({"op":"ready"}\n);
	while (<$in>) { $q = decode_json $_; $id = $q->{id}; $v = eval $q->{code}; print $out encode_json({op => "done", id => $id, value => {"text/plain" => "$v"}}), "\n" }`

// TestOwnKernelThatIsLost is about kernels that become none while a cell runs: the cell says why, and the next one has
// a new kernel.
func TestOwnKernelThatIsLost(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		tiny := perlKernel(t, crude)
		good := perlKernel(t, "")
		good.Name, good.Extensions = "good", []string{".good"}
		c.Runtimes = []pipeline.Runtime{tiny, good}
	})
	for _, c := range []struct {
		name, language, code, want string
	}{
		{"garbage", "perl", `print $out "\0\xff garbage\n"`, "protocol: a line that can't be read"},
		{"another shape", "perl", `print $out qq({"op":"done","id":"x"}\n)`, "protocol: a line that can't be read"},
		{"another op", "perl", `print $out qq({"op":"call","id":$id,"call":1,"name":"f"}\n)`, "protocol: a line that can't be read: its op is not"},
		{"too large", "perl", `$x = "x" x (1 << 20); print $out $x for 1 .. 65; sleep 1 while 1`, "protocol: a line of more than"},
		{"a line without end", "perl", `print $out "{"; exit 4`, "in the middle of a line"},
		{"it dies", "perl", `exit 4`, "it exited with code 4"},
		{"it is killed", "perl", `kill 9, $$; sleep 9`, "it was killed by SIGKILL"},
		{"it closes its channel", "perl", `use POSIX; POSIX::close(3); sleep 1 while 1`, "the interpreter closed its channel"},
		{"a child holds the channel", "perl", `use POSIX; $SIG{INT} = "IGNORE"; if (!fork) { sleep 1 while 1 } POSIX::close(3); sleep 1 while 1`, "it had to be killed"},
		{"it never answers, and ignores the interrupt", "perl", `$SIG{INT} = "IGNORE"; 1 while 1`, "it had to be killed"},
		{"the interrupt kills it", "perl", `1 while 1`, "it was killed by SIGINT"},
		{"the example ignores the interrupt", "good", `$SIG{INT} = "IGNORE"; 1 while 1`, "it had to be killed"},
		{"the example has no channel", "good", `use POSIX; POSIX::close(3)`, "it exited with code 1"},
		{"the example has no memory", "good", `my $x = "x" x (1 << 29)`, "memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := pipelinetest.Open(t, p, session.New{Language: c.language, Limits: pipeline.Bounds{Limits: backends.Limits{RAM: 100 << 20}}})
			defer pipelinetest.CloseSession(t.Context(), p, "", s.ID)
			pipelinetest.Cell(t, p, s.ID, "$before = 1", nil)
			limit := time.Minute
			if strings.Contains(c.want, "killed by SIGINT") || strings.Contains(c.want, "had to be") {
				limit = 300 * time.Millisecond
			}
			res := pipelinetest.Cell(t, p, s.ID, c.code, func(q *run.Request) { q.Limits.Wall = limit })
			if !strings.Contains(res.StateLost, c.want) && !strings.Contains(textOf(res), c.want) || res.Ended == "ok" {
				t.Errorf("got %s, want %s", textOf(res), c.want)
			}
			if got := textOf(pipelinetest.Cell(t, p, s.ID, "$before . 2", nil)); !strings.Contains(got, "value 2") {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// TestOwnKernelThatIsOdd covers odd messages that a kernel may send, and a cell that has its channel.
func TestOwnKernelThatIsOdd(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Runtimes = []pipeline.Runtime{perlKernel(t, crude)} })
	s := pipelinetest.Open(t, p, session.New{Language: "perl"})
	for _, c := range []struct{ name, code, want string }{
		{"twice", `print $out qq({"op":"done","id":$id,"value":{"text/plain":"first"}}\n); "second"`, "value first"},
		{"an answer ahead", `print $out qq({"op":"done","id":99}\n{"op":"ready"}\n{"op":"display","id":1,"data":{"text/plain":"no"}}\n); "it"`, "value it"},
		{"a child that lives on with the channel", `if (!fork) { $SIG{INT} = "IGNORE"; sleep 1 while 1 } "parent"`, "value parent"},
		{"a large line", `"x" x (1 << 20)`, "value xxxx"},
	} {
		if got := textOf(pipelinetest.Cell(t, p, s.ID, c.code, nil)); !strings.Contains(got, c.want) || strings.Contains(got, "lost") || strings.Contains(got, "display") {
			t.Errorf("%s: got %.200s, want %s", c.name, got, c.want)
		}
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.Bridge{
		Session: s.ID, Key: "x", Value: []byte("1"),
	}); err == nil || !strings.Contains(err.Error(), "can't set variables: its ready message does not list the op set (copy it in a file)") {
		t.Errorf("it sets variables: %v", err)
	}
	if state, err := session.Inspect(t.Context(), p, "default", s.ID); err != nil || !strings.Contains(state.Note, "can't list variables") {
		t.Errorf("it lists variables: %v %q", err, state.Note)
	}
	if got := textOf(pipelinetest.Cell(t, p, s.ID, "1", nil)); !strings.Contains(got, "value 1") {
		t.Errorf("at last: %s", got)
	}
}
