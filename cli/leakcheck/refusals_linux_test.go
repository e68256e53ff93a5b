package leakcheck

import (
	"errors"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// leakByRefusals sends invalid requests that name a secret and contain its value in another field. Error messages must not
// contain it.
func (b *bench) leakByRefusals() {
	for i, change := range []func(q *run.Request, value string){
		func(q *run.Request, v string) { q.Name = v + ".py" },
		func(q *run.Request, v string) { q.Language = v },
		func(q *run.Request, v string) { q.Env = []string{v + "=1"} },
		func(q *run.Request, v string) { q.Env = []string{"A\x00B=" + v} },
		func(q *run.Request, v string) { q.Args = []string{v + "\x00"} },
		func(q *run.Request, v string) { q.Secrets = append(q.Secrets, v) },
		func(q *run.Request, v string) { q.Backend = v },
		func(q *run.Request, v string) { q.Profile = v },
		func(q *run.Request, v string) { q.Require = []string{v} },
		func(q *run.Request, v string) { q.Session = v },
		func(q *run.Request, v string) { q.Allow = []string{v} },
		func(q *run.Request, v string) { q.Allow = []string{v + ".example.com"} },
		func(q *run.Request, v string) { q.Inputs = []run.Input{{Host: "/no/such/" + v}} },
		func(q *run.Request, v string) {
			q.Inputs = []run.Input{{Name: "../" + v, Content: []byte("x")}}
		},
		func(q *run.Request, v string) {
			q.Mounts = []backends.Mount{{Host: "/no/such/" + v, Inside: "/data"}}
		},
		func(q *run.Request, v string) { q.Mounts = []backends.Mount{{Host: "/etc", Inside: v}} },
		func(q *run.Request, v string) { q.Code = []byte("def " + v + "(:") },
		func(q *run.Request, v string) {
			q.Code = []byte("key = '" + v + "'\nimport no_such_module_of_ours")
		},
		func(q *run.Request, v string) { q.Code = []byte("import os\nos.system('curl -H " + v + " x')") },
		func(q *run.Request, v string) { q.Args = []string{v} },
		func(q *run.Request, v string) { q.Env = []string{"GIVEN=" + v} },
		func(q *run.Request, v string) { q.Artifacts = "/proc/" + v },
	} {
		for k := range 4 {
			b.refused(i, b.names[(5*i+31*k)%len(b.names)], change)
		}
	}
}

func (b *bench) refused(i int, name string, change func(*run.Request, string)) {
	q := run.Request{Language: "python", Code: []byte("import sys, os; print(sys.argv, os.environ)"),
		Reach: run.Reach{Secrets: []string{name}}}
	change(&q, b.secrets[name].value)
	_, res, err := pipeline.Do(b.Context(), b.Pipeline, q)
	from := fmt.Sprintf("request %d", i)
	b.collect(from, "refused", res.ID, res)
	b.outcome.append(from, "error", fmt.Sprint(err))
	var e *pipeline.Error
	if errors.As(err, &e) {
		b.outcome.append(from, "error", e.Reason+"\n"+e.Remedy.String())
	}
}
