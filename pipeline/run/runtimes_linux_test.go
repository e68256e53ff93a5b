package run_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

var (
	perl = pipeline.Runtime{Name: "perl", Extensions: []string{".pl", ".pm"}, Command: []string{"perl", "-w"}, Check: []string{"perl", "-c"}}
	cee  = pipeline.Runtime{Name: "c", Extensions: []string{".c"}, Compile: []string{"gcc", "-O1", "-o", "{program}", "{file}"},
		Command: []string{"{program}"}, Check: []string{"gcc", "-fsyntax-only"}}
)

func TestRuntimes(t *testing.T) {
	for _, needed := range []pipeline.Runtime{perl, cee} {
		if program := containment.MissingProgram("process", needed.Command, needed.Compile); program != "" {
			hosttest.SkipMissing(t, program, "it is not installed")
		}
	}
	none := pipeline.Runtime{Name: "none", Extensions: []string{".none"}, Command: []string{"no-such-program"}}
	p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Runtimes = []pipeline.Runtime{perl, cee, none} })
	main := "#include <stdio.h>\nint main(int n, char **a) { int c = getchar(); printf(\"%d %s %c\\n\", n, a[n - 1], c); return 7; }\n"
	for _, c := range []struct {
		name   string
		q      run.Request
		exit   int
		stdout string
		stderr string
	}{
		{"perl", run.Request{Language: "Perl", Code: []byte("print join(',', @ARGV), \"\\n\"; exit 3"), Args: []string{"a b", "-c"}}, 3,
			"a b,-c\n", ""},
		{"by extension", run.Request{Name: "x.pl", Code: []byte("print 6*7")}, 0, "42", ""},
		{"a fence", run.Request{Language: "python", Show: true, Code: []byte("```perl\nprint 6*7\n```")}, 0, "42", ""},
		{"an error", run.Request{Name: "x.pl", Code: []byte("print (")}, 255, "", "syntax error at x.pl line 1"},
		{"a syntax check", run.Request{Name: "x.pl", CheckOnly: true, Code: []byte("print 'not run'")}, 0, "", "x.pl syntax OK"},
		{"c", run.Request{Name: "main.c", Code: []byte(main), Args: []string{"it's $HOME"}, Streams: run.Streams{Stdin: strings.NewReader("!")}},
			7, "2 it's $HOME !\n", ""},
		{"c, another name", run.Request{Language: "c", Name: "-x 'y", Code: []byte(main), Streams: run.Streams{Stdin: strings.NewReader("!")}}, 7,
			"1 /tmp/program !\n", ""},
		{"c that does not compile", run.Request{Language: "c", Code: []byte("int main( {")}, 1, "", "error: "},
		{"c, a syntax check", run.Request{Language: "c", CheckOnly: true, Code: []byte("int main( {")}, 1, "", "error: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, res, err := pipeline.Do(t.Context(), p, c.q)
			if err != nil || res.ExitCode != c.exit || res.Stdout != c.stdout || !strings.Contains(res.Stderr, c.stderr) || len(res.Artifacts) != 0 {
				t.Errorf("got %v %d %q %q %v, want %d %q", err, res.ExitCode, res.Stdout, res.Stderr, res.Artifacts, c.exit, c.stdout)
			}
			for _, layer := range res.MissingLayers() {
				if layer != backends.LayerCgroup { // which ordinary users have nowhere
					t.Errorf("without %s", layer)
				}
			}
		})
	}
	if started := strings.Join(pipelinetest.Rows(t, log, "execution.started"), "\n"); !strings.Contains(started, `"language":"perl"`) ||
		!strings.Contains(started, `"language":"c"`) {
		t.Errorf("the log has %s", started)
	}
	for name, q := range map[string]doing{
		"needs no-such-program":  doingOf(run.Request{Language: "none", Code: []byte("x")}),
		"is empty":               doingOf(run.Request{Language: "perl"}),
		"no command that checks": doingOf(run.Request{Language: "none", CheckOnly: true, Code: []byte("x")}),
		"be checked without":     doingOf(run.Request{Language: "python", CheckOnly: true, Code: []byte("x")}),
		"sessions can't run":     doingOf(session.New{Language: "perl"}),
		"unknown language":       doingOf(run.Request{Language: "cobol", Code: []byte("x")}),
	} {
		_, err := q(t.Context(), p)
		if e, _ := errors.AsType[*pipeline.Error](err); e == nil || !e.Denied || !strings.Contains(e.Reason, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	probe, err := containment.Probe(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, r := range probe.Runtimes {
		at[r.Name] = r.Path + "|" + r.Why.String()
	}
	if at["perl"] == "" || strings.HasPrefix(at["perl"], "|") || !strings.Contains(at["none"], "names no-such-program") {
		t.Errorf("the probe offers %v", at)
	}
}
