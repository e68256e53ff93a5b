package install

import (
	"context"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// newPermitting is a pipeline in which a person approves the packages to install.
func newPermitting(t *testing.T) (*pipeline.Pipeline, *approval.Broker) {
	var broker *approval.Broker
	p, _, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		broker = approval.New(approval.Config{Audit: c.Audit})
		store, err := packages.Open(packages.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		c.Approvals, c.Packages, c.AskPackages = broker, store, true
	})
	t.Cleanup(func() { broker.Close() })
	memory.Set("team", "KEY", []byte("k3y-"+"that-nobody-hears-of"))
	return p, broker
}

func TestAPersonApprovesPackages(t *testing.T) {
	p, broker := newPermitting(t)
	pipelinetest.WheelIndex(t)(t)
	var asked []approval.Question
	say := func(a approval.Answer) func(context.Context, *approval.Pending) {
		return func(ctx context.Context, q *approval.Pending) {
			asked = append(asked, q.Question)
			a.By = approval.CommandLine()
			if err := broker.Answer(ctx, q.Question.ID, a); err != nil {
				t.Error(err)
			}
		}
	}
	order := func(ask func(context.Context, *approval.Pending), names ...string) Request {
		return Request{Namespace: "team", Language: "python", Packages: names, Client: "agent 1.0", Ask: ask}
	}
	_, _, err := pipeline.Do(t.Context(), p, order(say(approval.Answer{Reason: "use ours"}), "greet>=0"))
	if err == nil || !strings.Contains(err.Error(), "python: greet>=0 was not approved: use ours") {
		t.Errorf("denied: %v", err)
	}
	if _, _, err := pipeline.Do(t.Context(), p, order(nil, "greet>=0")); err == nil || len(asked) != 1 {
		t.Errorf("the same at once: %v, asked %d times", err, len(asked))
	}
	_, res, err := pipeline.Do(t.Context(), p, order(say(approval.Answer{Allowed: true}), "greet"))
	if err != nil || res.Ended != backends.EndedOK {
		t.Fatalf("approved: %v, %s %s", err, res.Ended, res.Stderr)
	}
	if q := asked[1]; q.Kind != approval.Package || q.What != "python: greet" || q.Client != "agent 1.0" || q.Namespace != "team" {
		t.Errorf("asked was %+v", q)
	}
	if _, _, err := pipeline.Do(t.Context(), p, order(nil, "greet")); err != nil || len(asked) != 2 {
		t.Errorf("approved already: %v, asked %d times", err, len(asked))
	}
	// One more package is another question, and nobody answers it.
	ctx, cancel := context.WithCancel(t.Context())
	more := order(func(context.Context, *approval.Pending) { cancel() }, "greet", "other")
	if _, _, err := pipeline.Do(ctx, p, more); err == nil {
		t.Error("more than was approved was installed")
	}
	typed := order(nil, "greet==99")
	typed.Typed = true
	if _, res, err := pipeline.Do(t.Context(), p, typed); err != nil || res.Ended != backends.EndedExit || len(asked) != 2 {
		t.Errorf("typed by a person: %v, %s, asked %d times", err, res.Ended, len(asked))
	}
}

func TestInstallQuestion(t *testing.T) {
	p, broker := newPermitting(t)
	q := Request{Namespace: "team", Language: "python", Packages: []string{"a==1", "b"}}
	question, ask, err := Question(t.Context(), p, q)
	if err != nil || !ask || question.What != "python: a==1, b" {
		t.Errorf("got %+v, %v, %v", question, ask, err)
	}
	bad := q
	bad.Packages = []string{"--index-url=http://evil.example"}
	if _, ask, err := Question(t.Context(), p, bad); err == nil || ask {
		t.Errorf("a person would be asked about what is refused anyway: %v", err)
	}
	broker.Close()
	if _, _, err := pipeline.Do(t.Context(), p, q); err == nil || !strings.Contains(err.Error(), "can't be asked") {
		t.Errorf("when can't ask: %v", err)
	}
	p.Config.Approvals = nil
	if _, _, err := pipeline.Do(t.Context(), p, q); err == nil || !strings.Contains(err.Error(), "this process can't ask") {
		t.Errorf("without approvals: %v", err)
	}
	p.Config.AskPackages = false
	if _, ask, err := Question(t.Context(), p, q); err != nil || ask {
		t.Errorf("nobody is to be asked: %v, %v", ask, err)
	}
}

func TestHead(t *testing.T) {
	long := strings.Repeat("line\n", 20)
	for text, want := range map[string]string{"": "", "one": "one", "one\ntwo\n": "one\ntwo\n", long: strings.Repeat("line\n", 12) +
		"... and 8 more lines"} {
		if got := run.Head(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestQuestionsHaveNoSecrets: the code that a person is shown is redacted before it is cut.
func TestQuestionsHaveNoSecrets(t *testing.T) {
	secret := "k3y-" + strings.Repeat("that-nobody-sees-", 8)
	var broker *approval.Broker
	p, _, memory, _ := pipelinetest.NewTown(t, nil, func(c *pipeline.Config) {
		broker = approval.New(approval.Config{Audit: c.Audit})
		c.Approvals, c.Egress.Ask = broker, true
	})
	defer broker.Close()
	memory.Set("team", "KEY", []byte(secret))
	code := "# " + secret + "\n" + strings.Repeat("#"+strings.Repeat("-", 80)+"\n", 10) + "# " + secret + "\n# more\n" +
		string(pipelinetest.Fetch("http://web.test"))
	var heads []string
	_, _, err := pipeline.Do(t.Context(), p, pipelinetest.Python([]byte(code), func(q *run.Request) {
		q.Namespace, q.Secrets = "team", []string{"KEY"}
		q.Ask = func(ctx context.Context, asked *approval.Pending) {
			heads = append(heads, asked.Question.CodeHead)
			_ = broker.Answer(ctx, asked.Question.ID, approval.Answer{By: approval.CommandLine()})
		}
	}))
	if err != nil || len(heads) == 0 {
		t.Fatal(err, heads)
	}
	for _, h := range heads {
		if strings.Contains(h, secret[:12]) || !strings.Contains(h, "REDACTED") || strings.Contains(h, "# more") {
			t.Errorf("a person is shown %q", h)
		}
	}
}
