package leakcheck

import (
	"errors"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// refusals sends requests that can't be run, with a secret that they ask for at the same time where it does
// not belong. Messages about them contain it no more than messages about a run.
func (b *bench) refusals() {
	for i, change := range []func(q *pipeline.Request, value string){
		func(q *pipeline.Request, v string) { q.Name = v + ".py" },
		func(q *pipeline.Request, v string) { q.Language = v },
		func(q *pipeline.Request, v string) { q.Env = []string{v + "=1"} },
		func(q *pipeline.Request, v string) { q.Env = []string{"A\x00B=" + v} },
		func(q *pipeline.Request, v string) { q.Args = []string{v + "\x00"} },
		func(q *pipeline.Request, v string) { q.Secrets = append(q.Secrets, v) },
		func(q *pipeline.Request, v string) { q.Backend = v },
		func(q *pipeline.Request, v string) { q.Profile = v },
		func(q *pipeline.Request, v string) { q.Require = []string{v} },
		func(q *pipeline.Request, v string) { q.Session = v },
		func(q *pipeline.Request, v string) { q.Allow = []string{v} },
		func(q *pipeline.Request, v string) { q.Allow = []string{v + ".example.com"} },
		func(q *pipeline.Request, v string) { q.Inputs = []pipeline.Input{{Host: "/no/such/" + v}} },
		func(q *pipeline.Request, v string) {
			q.Inputs = []pipeline.Input{{Name: "../" + v, Content: []byte("x")}}
		},
		func(q *pipeline.Request, v string) {
			q.Mounts = []backends.Mount{{Host: "/no/such/" + v, Inside: "/data"}}
		},
		func(q *pipeline.Request, v string) { q.Mounts = []backends.Mount{{Host: "/etc", Inside: v}} },
		func(q *pipeline.Request, v string) { q.Code = []byte("def " + v + "(:") },
		func(q *pipeline.Request, v string) {
			q.Code = []byte("key = '" + v + "'\nimport no_such_module_of_ours")
		},
		func(q *pipeline.Request, v string) { q.Code = []byte("import os\nos.system('curl -H " + v + " x')") },
		func(q *pipeline.Request, v string) { q.Args = []string{v} },
		func(q *pipeline.Request, v string) { q.Env = []string{"GIVEN=" + v} },
		func(q *pipeline.Request, v string) { q.Artifacts = "/proc/" + v },
	} {
		for k := range 4 {
			b.refused(i, b.names[(5*i+31*k)%len(b.names)], change)
		}
	}
}

func (b *bench) refused(i int, name string, change func(*pipeline.Request, string)) {
	q := pipeline.Request{Language: "python", Code: []byte("import sys, os; print(sys.argv, os.environ)"), Reach: pipeline.Reach{Secrets: []string{name}}}
	change(&q, b.secrets[name].value)
	_, res, err := pipeline.Do(b.Context(), b.Pipeline, q)
	from := fmt.Sprintf("request %d", i)
	b.keep(from, "refused", res.ID, res)
	b.outcome.add(from, "error", fmt.Sprint(err))
	var e *pipeline.Error
	if errors.As(err, &e) {
		b.outcome.add(from, "error", e.Reason+"\n"+e.Remedy.String())
	}
}
