package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// executionRefused is a kind of row. Listeners are told execution.failed.
const executionRefused = "execution.refused"

// What one row may hold: the log takes 1 MiB a row, and a program that leaves a thousand long
// names behind must not be able to make its own record impossible.
const (
	maxItems  = 100
	maxNames  = 64 << 10 // bytes of all artifacts' names together, before JSON escapes them
	maxReason = 4 << 10
	maxText   = 512
)

// facts describe a run in each of its rows: names, sizes and hashes, never code, values or output.
type facts map[string]any

// facts returns what is known of a request before anybody has looked at it, beside what all subjects have.
func (q *Request) facts() facts {
	f := envFacts(q.Env)
	f.add("context", q.Context, len(q.Context))
	f.add("command", q.Command, len(q.Command))
	if q.Terminal != nil {
		f["terminal"] = true
	}
	f.add("args", len(q.Args), len(q.Args))
	f.add("args_sha256", hash([]byte(strings.Join(q.Args, "\x00"))), len(q.Args))
	f.add("secrets", q.Secrets, len(q.Secrets))
	f.add("allow", q.Allow, len(q.Allow))
	f.add("data", q.Data, len(q.Data))
	var mounts []string
	for _, m := range q.Mounts {
		mounts = append(mounts, mountName(m))
	}
	f.add("mounts", mounts, len(mounts))
	f.add("workspace", mountName(q.Workspace), len(q.Workspace.Host))
	return f
}

// envFacts names variables.
func envFacts(env []string) facts {
	var names []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	f := facts{}
	f.add("env", names, len(names))
	return f
}

// asker adds for whom it is done: an agent's program, by what it calls itself, and the user of the operating system.
func (r *run) asker(client string) {
	r.facts.add("client", client, len(client))
	r.facts.add("user", r.p.cfg.User, len(r.p.cfg.User))
}

// know adds what was decided about a request that is sound.
func (r *run) know(c plan) {
	r.facts["language"], r.facts["name"] = c.program.Language, c.program.Name
	r.facts["backend"], r.facts["profile"], r.facts["require"] = c.backend.Name(), c.profile, c.requires
	r.facts["limits"] = map[string]any{
		"ram_bytes": c.limits.RAM, "wall_seconds": c.limits.Wall.Seconds(), "cpu_cores": c.limits.CPU,
		"processes": c.limits.Processes, "disk_bytes": c.limits.Disk, "output_bytes": c.limits.Output,
	}
}

// MarshalJSON implements [json.Marshaler], without the copy of each value that reflection over a map makes.
func (f facts) MarshalJSON() ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, 1<<10))
	e := json.NewEncoder(out)
	for i, key := range slices.Sorted(maps.Keys(f)) {
		out.WriteByte("{,"[min(i, 1)])
		if err := e.Encode(key); err != nil {
			return nil, err
		}
		out.Truncate(out.Len() - 1) // the line's end
		out.WriteByte(':')
		if err := e.Encode(f[key]); err != nil {
			return nil, err
		}
		out.Truncate(out.Len() - 1)
	}
	if len(f) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// add leaves out what there is none of.
func (f facts) add(key string, value any, count int) {
	if count > 0 {
		f[key] = value
	}
}

// long is text that may be as long as maxReason.
type long string

// cleaned takes secrets out of the text in v, and then returns its beginning, and that of each
// list. Applied twice it would cut twice.
func (r *run) cleaned(v any) any {
	switch v := v.(type) {
	case string:
		return safetext.Clip(r.clean(v), maxText)
	case long:
		return safetext.Clip(r.clean(string(v)), maxReason)
	case captured:
		return safetext.Clip(strings.ToValidUTF8(r.clean(string(v)), "\uFFFD"), maxCaptured)
	case []string:
		short := make([]string, 0, min(len(v), maxItems+1))
		for i, s := range v {
			if i == maxItems {
				return append(short, fmt.Sprintf("and %d more", len(v)-maxItems))
			}
			short = append(short, safetext.Clip(r.clean(s), maxText))
		}
		return short
	}
	return v
}

// note keeps an entry for the next time that something is written to the log.
func (r *run) note(kind string, data facts) { r.enter(kind, nil, data) }

// noteRun notes something about the run as a whole, with all that is known of it.
func (r *run) noteRun(kind string, data facts) { r.enter(kind, r.facts, data) }

// enter notes an entry of facts and more, free of secrets, and bounded. The text must not have been cut before: half a secret is not
// recognized.
func (r *run) enter(kind string, f, more facts) {
	all := facts{}
	for _, part := range []facts{f, more} {
		for k, v := range part {
			all[k] = r.cleaned(v)
		}
	}
	r.entries = append(r.entries, audit.Entry{Kind: kind, Run: r.res.ID, Namespace: r.res.Namespace, Data: all})
}

// flush makes the noted entries durable, and then tells the listeners: nobody hears of what the
// log does not hold.
func (r *run) flush(ctx context.Context) error {
	defer r.time(&r.res.Timings.Audit)()
	if r.p.cfg.Audit == nil {
		return &Error{Stage: StageAudit, Reason: "there is no audit log, and nothing runs without a record", Denied: true}
	}
	entries := r.entries
	r.entries = nil
	for i, e := range entries {
		caller(ctx).sign(e.Data.(facts))
		entries[i].Late = r.late
	}
	if _, err := r.p.cfg.Audit.Append(ctx, entries...); err != nil {
		return err
	}
	for _, e := range entries {
		if isEnd(e.Kind) {
			r.p.journal.endRun(e.Run)
		}
		r.publish(e.Kind, e.Data.(facts))
	}
	return nil
}

// publish tells the listeners of an event of the run.
func (r *run) publish(name string, data map[string]any) {
	r.p.publish(name, r.res.ID, r.res.Namespace, data)
}

// isEnd reports whether a row of this kind is the end of a run.
func isEnd(kind string) bool {
	return kind == event.ExecutionCompleted || kind == event.ExecutionFailed || kind == event.ExecutionTimeout || kind == executionRefused
}

// publish tells the listeners, unless it is something that only the log holds.
func (p *Pipeline) publish(name, run, namespace string, data map[string]any) {
	if name == executionRefused || name == executionLost {
		name = event.ExecutionFailed
	}
	if !event.Known(name) {
		return
	}
	p.cfg.Bus.Publish(event.Event{Name: name, Time: time.Now(), Run: run, Namespace: namespace, Data: data})
}

// record makes one entry durable that does not wait for the next of a run, and then tells the listeners.
func (p *Pipeline) record(ctx context.Context, kind, run, namespace string, data facts) error {
	if _, err := p.cfg.Audit.Append(ctx, audit.Entry{Kind: kind, Run: run, Namespace: namespace, Data: data}); err != nil {
		return err
	}
	p.publish(kind, run, namespace, data)
	return nil
}

// recordStart puts the run's start into the log. Until then its program must not begin. The disk is not waited
// for: a killed server leaves the start, and the end is not durable before the start is.
func (r *run) recordStart(ctx context.Context) error {
	r.noteRun(event.ExecutionStarted, nil)
	for i := range r.entries {
		r.entries[i].Soon = true
	}
	var err error
	if r.p.cfg.Keys != nil { // nothing runs whose receipt could not be signed
		_, err = r.p.cfg.Keys.Current(ctx)
	}
	if err == nil {
		r.p.journal.begin(journalRun, r.res.ID, r.res.Namespace)
		err = r.flush(ctx)
	}
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(*audit.Unwritten)) { // else a disk that failed may have the row
			r.p.journal.endRun(r.res.ID)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // then nothing was written
		}
		return unrecorded(notStarted, true, err)
	}
	r.started = true
	return nil
}

// endKind returns the kind of row for a run that ended this way.
func endKind(ended string) string {
	switch ended {
	case backends.EndedOK, backends.EndedExit, backends.EndedSignal:
		return event.ExecutionCompleted
	case backends.EndedTimeout:
		return event.ExecutionTimeout
	}
	return event.ExecutionFailed
}

// endFacts returns what the row of a run's end says on top of the facts.
func (r *run) endFacts(inputs map[string]string) facts {
	res := &r.res
	f := facts{
		"ended": res.Ended, "exit_code": res.ExitCode,
		"layers":  res.LayersInForce(),
		"wall_ms": res.WallMS, "cpu_ms": res.CPUMS, "peak_memory": res.PeakMemory,
		"queue_us":  res.Timings.Queue,
		"artifacts": len(res.Artifacts), "policy_sha256": r.p.policy,
	}
	if res.Interrupted != "" {
		f["interrupted"] = res.Interrupted
	}
	if res.Warm { // what such programs share with each other is for who reads the log to know
		f["warm"] = true
	}
	f.add("signal", res.Signal, len(res.Signal))
	f.add("limit", res.Limit, len(res.Limit))
	f.add("hit", res.Hit, len(res.Hit))
	f.add("egress", firstDecisions(res.Egress), len(res.Egress))
	f.add("egress_decisions", len(res.Egress), len(res.Egress))
	f.add("missing_layers", res.missing(), len(res.missing()))
	f.add("unknown_tokens", r.unknown.all(), len(r.unknown.all()))
	f.add("artifact_list", r.listArtifacts(), len(res.Artifacts))
	f.add("artifacts_sha256", res.SumsSHA256(), len(res.Artifacts))
	// A script is among them, and named elsewhere.
	f.add("inputs", len(inputs)-r.own, len(inputs)-r.own)
	f.add("inputs_sha256", hashNames(inputs), len(inputs)-r.own)
	maps.Copy(f, r.times())
	return f
}

// times returns the begin of the run and the durations of its stages so far, in microseconds. The record of its end is
// not among them.
func (r *run) times() facts {
	t := r.res.Timings
	return facts{"began": r.began.UTC().Format(time.RFC3339Nano), "timings_us": map[string]int64{
		"validate": t.Validate, "queue": t.Queue, "vault": t.Vault, "egress": t.Egress, "start": t.Start, "exec": t.Exec, "sign": t.Sign,
	}}
}

func (r Outcome) missing() []string {
	var names []string
	for _, l := range r.Layers {
		if !l.InForce {
			names = append(names, l.Name)
		}
	}
	return names
}

// listArtifacts names the first artifacts; the hash of the whole list stands beside it.
func (r *run) listArtifacts() []signer.Artifact {
	list, names := []signer.Artifact{}, 0
	for _, a := range r.res.Artifacts {
		if names += len(a.Name); names > maxNames || len(list) >= 10*maxItems {
			break
		}
		a.Name = r.clean(a.Name)
		list = append(list, a)
	}
	return list
}

// firstDecisions are the first decisions. Their text is clean already, and cut here.
func firstDecisions(all []egress.Record) []egress.Record {
	list := slices.Clone(all[:min(len(all), maxItems)])
	for i := range list {
		list[i].Name, list[i].Reason = safetext.Clip(list[i].Name, maxText), safetext.Clip(list[i].Reason, maxText)
	}
	return list
}

func hashNames(sums map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(h, "%s  %q\n", sums[name], name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mountName(m backends.Mount) string {
	mode := "ro"
	if m.Write {
		mode = "rw"
	}
	return m.Host + ":" + m.Inside + ":" + mode
}
