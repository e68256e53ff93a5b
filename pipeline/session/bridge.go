package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Bridge copies a value into a session: Value, or the variable Key of the session From. The result's id is that of
// the row in the audit log. Secrets of From are removed on the way.
type Bridge struct {
	Namespace string
	From      string // a session of the namespace; "" copies Value
	Session   string // of the namespace
	Key       string
	As        string          // the name in Session; "" is Key
	Value     json.RawMessage // any JSON
}

// maxBridged bounds a value that Bridge copies, in bytes of JSON.
const maxBridged = 32 << 20

func (b Bridge) Subject() pipeline.Subject {
	return pipeline.About(cmp.Or(b.As, b.Key), b.Namespace, b.Session)
}

func (b Bridge) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	b.As = cmp.Or(b.As, b.Key)
	w := &bridging{Change: pipeline.Change[pipeline.NoAnswer]{Task: pipeline.Task[pipeline.NoAnswer]{Run: r, Stage: pipeline.StageBackend},
		RowKind: "session.bridged"}, Bridge: b}
	w.Do = func(ctx context.Context) (none pipeline.NoAnswer, _ error) {
		ctx, cancel := context.WithTimeout(ctx, pipeline.FinishTimeout)
		defer cancel()
		if err := w.guard.Kernel().Set(ctx, b.As, w.Value); err != nil {
			return none, pipeline.Refuse(pipeline.StageBackend, fmt.Sprintf("set %q: %v", b.As, err),
				bridgeRemedy(err, "choose a valid name of the language"))
		}
		return none, nil
	}
	return w, nil
}

// bridging performs a Bridge.
type bridging struct {
	pipeline.Change[pipeline.NoAnswer]
	Bridge
	guard *Guard
}

// Acquire reads and checks the value, and waits for the session that receives it.
func (b *bridging) Acquire(ctx context.Context) (err error) {
	if b.From != "" {
		if b.Value, err = readBridged(ctx, b.Change.Task.Run, b.Bridge); err != nil {
			return err
		}
	}
	switch {
	case len(b.Value) > maxBridged:
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the value has %d bytes, more than %d MB", len(b.Value), maxBridged>>20),
			"write it to a file, and pass that as an input")
	case !json.Valid(b.Value):
		return pipeline.Refuse(pipeline.StageValidate, "the value is not JSON", "")
	}
	s, err := FindSession(b.Pipeline, b.Namespace, b.Session)
	if err != nil {
		return err
	}
	if b.guard, err = s.Acquire(ctx); err != nil {
		return ErrorOf(pipeline.StageQueue, err)
	}
	b.Releases = append(b.Releases, b.guard.Release)
	b.Leases = s.Leases()
	info := s.Info()
	b.Outcome.Language, b.Outcome.Backend, b.Outcome.Profile = info.Language, info.Backend, info.Profile
	b.Change.Facts = pipeline.Facts{"session": b.Session, "from": b.From, "key": b.As, "bytes": len(b.Value),
		"value_sha256": pipeline.Hash(b.Value)}
	return nil
}

// readBridged reads the value from the session From.
func readBridged(ctx context.Context, r *pipeline.Run, b Bridge) (json.RawMessage, error) {
	s, err := FindSession(r.Pipeline, b.Namespace, b.From)
	if err != nil {
		return nil, err
	}
	guard, err := s.Acquire(ctx)
	if err != nil {
		return nil, ErrorOf(pipeline.StageQueue, err)
	}
	defer guard.Release()
	ctx, cancel := context.WithTimeout(ctx, pipeline.FinishTimeout)
	defer cancel()
	value, err := guard.Kernel().Get(ctx, b.Key)
	if err != nil {
		if e := lacksVariable(ctx, s, guard.Kernel(), b); e != nil {
			return nil, e
		}
		return nil, pipeline.Refuse(pipeline.StageBackend, s.Redact(fmt.Sprintf("get %q: %v", b.Key, err)),
			bridgeRemedy(err, "use a value that can be written as JSON"))
	}
	return json.RawMessage(s.Redact(string(value))), nil
}

// bridgeRemedy returns otherwise, unless the session's kernel can't read or set variables.
func bridgeRemedy(err error, otherwise string) string {
	if errors.Is(err, kernel.ErrUnsupportedOp) {
		return "copy it in a file"
	}
	return otherwise
}

// lacksVariable returns an error that lists a session's variables, or nil if the session has the variable.
func lacksVariable(ctx context.Context, s *Session, k *kernel.Kernel, b Bridge) error {
	all, err := k.Variables(ctx)
	if err != nil || slices.ContainsFunc(all, func(v kernel.Variable) bool { return v.Name == b.Key }) {
		return nil
	}
	const limit = 30
	var names []string
	for _, v := range all[:min(len(all), limit)] {
		names = append(names, safetext.Clip(v.Name, 100))
	}
	do := pipeline.Remedy{"it has no variables yet: set it there first, with ", remedy.Exec}
	if names != nil {
		do = pipeline.Remedy{"name one of its variables as ", remedy.FromKey, ": ", strings.Join(names, ", ")}
	}
	if len(all) > limit {
		do = append(do, " or one of ", len(all)-limit, " more, which ", remedy.Inspect, " lists")
	}
	return pipeline.Refuse(pipeline.StageBackend, s.Redact(fmt.Sprintf("session %s has no variable %q", b.From, safetext.Clip(b.Key, 200))),
		do.Clean(s.Redact)...)
}
