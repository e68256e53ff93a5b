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

// ExecutionRefused is the kind of row of a refused run. Listeners get execution.failed instead.
const ExecutionRefused = "execution.refused"

// Bounds of one row: the log takes 1 MiB per row, and a program with a thousand long file names must not be able to
// prevent its own record.
const (
	maxItems  = 100
	maxNames  = 64 << 10 // bytes of all artifacts' names together, before JSON escapes them
	MaxReason = 4 << 10
	MaxText   = 512
)

// Facts describe a run in each of its rows: names, sizes and hashes, never code, values or output.
type Facts map[string]any

// EnvFacts returns the names of variables.
func EnvFacts(env []string) Facts {
	var names []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	f := Facts{}
	f.AddIf("env", names, len(names))
	return f
}

// AddCallerFacts adds the caller: the agent's program, by the name that it reports, and the user of the operating
// system.
func (r *Run) AddCallerFacts(client string) {
	r.Facts.AddIf("client", client, len(client))
	r.Facts.AddIf("user", r.Pipeline.Config.User, len(r.Pipeline.Config.User))
}

// MarshalJSON implements [json.Marshaler] without the copies that reflection over a map makes.
func (f Facts) MarshalJSON() ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, 1<<10))
	e := json.NewEncoder(out)
	keys := slices.AppendSeq(make([]string, 0, len(f)), maps.Keys(f))
	slices.Sort(keys)
	for i, key := range keys {
		out.WriteByte("{,"[min(i, 1)])
		if err := e.Encode(&keys[i]); err != nil {
			return nil, err
		}
		out.Truncate(out.Len() - 1) // the newline
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

// AddIf adds a value unless count is 0.
func (f Facts) AddIf(key string, value any, count int) {
	if count > 0 {
		f[key] = value
	}
}

// LongText is text of at most MaxReason bytes in a row.
type LongText string

// cleanFact removes secrets from v and then cuts texts and lists. It must not be applied twice, which would cut
// twice.
func (r *Run) cleanFact(v any) any {
	switch t := v.(type) {
	case string:
		if s := safetext.Clip(r.Clean(t), MaxText); s != t {
			return s
		}
	case LongText:
		return safetext.Clip(r.Clean(string(t)), MaxReason)
	case CapturedText:
		return safetext.Clip(strings.ToValidUTF8(r.Clean(string(t)), "\uFFFD"), maxCaptured)
	case []string:
		short := make([]string, 0, min(len(t), maxItems+1))
		for i, s := range t {
			if i == maxItems {
				return append(short, fmt.Sprintf("and %d more", len(t)-maxItems))
			}
			short = append(short, safetext.Clip(r.Clean(s), MaxText))
		}
		return short
	}
	return v
}

// AddRow adds an entry to those that FlushRows writes.
func (r *Run) AddRow(kind string, data Facts) { r.appendRow(kind, nil, data) }

// AddRunRow adds an entry about the run as a whole, with all of its facts.
func (r *Run) AddRunRow(kind string, data Facts) { r.appendRow(kind, r.Facts, data) }

// appendRow adds an entry with facts and more, redacted and bounded. The text must not be cut before, because half a
// secret is not recognized.
func (r *Run) appendRow(kind string, f, more Facts) {
	all := make(Facts, len(f)+len(more))
	for _, part := range []Facts{f, more} {
		for k, v := range part {
			all[k] = r.cleanFact(v)
		}
	}
	r.entries = append(r.entries, audit.Entry{Kind: kind, Run: r.Outcome.ID, Namespace: r.Outcome.Namespace, Data: all})
}

// FlushRows makes the added entries durable, and then notifies the listeners: they get only events that the log has.
func (r *Run) FlushRows(ctx context.Context) error {
	defer r.TimeStage(&r.Outcome.Timings.Audit)()
	if r.Pipeline.Config.Audit == nil {
		return &Error{Stage: StageAudit, Reason: "there is no audit log, and runs require one", Denied: true}
	}
	entries := r.entries
	r.entries = nil
	for i, e := range entries {
		CallerFrom(ctx).AddTo(e.Data.(Facts))
		entries[i].Late = r.recordLate
	}
	if _, err := r.Pipeline.Config.Audit.Append(ctx, entries...); err != nil {
		return err
	}
	for _, e := range entries {
		if IsEndRow(e.Kind) {
			r.Pipeline.Journal.RemoveRun(e.Run)
		}
		r.publish(e.Kind, e.Data.(Facts))
	}
	return nil
}

// publish sends an event of the run to the listeners.
func (r *Run) publish(name string, data map[string]any) {
	r.Pipeline.PublishEvent(name, r.Outcome.ID, r.Outcome.Namespace, data)
}

// IsEndRow reports whether rows of this kind record the end of a run.
func IsEndRow(kind string) bool {
	return kind == event.ExecutionCompleted || kind == event.ExecutionFailed || kind == event.ExecutionTimeout || kind == ExecutionRefused
}

// PublishEvent sends an event to the listeners, unless it is only for the log.
func (p *Pipeline) PublishEvent(name, run, namespace string, data map[string]any) {
	if name == ExecutionRefused || name == ExecutionLost {
		name = event.ExecutionFailed
	}
	if !event.IsEvent(name) {
		return
	}
	p.Config.Bus.Publish(event.Event{Name: name, Time: time.Now(), Run: run, Namespace: namespace, Data: data})
}

// RecordRow makes one entry durable at once, and then notifies the listeners.
func (p *Pipeline) RecordRow(ctx context.Context, kind, run, namespace string, data Facts) error {
	if _, err := p.Config.Audit.Append(ctx, audit.Entry{Kind: kind, Run: run, Namespace: namespace, Data: data}); err != nil {
		return err
	}
	p.PublishEvent(kind, run, namespace, data)
	return nil
}

// RecordStart writes the run's start to the log. Until then its program must not begin. It does not wait for the
// disk: the start survives a killed server, and the end is not durable before the start is.
func (r *Run) RecordStart(ctx context.Context) error {
	r.AddRunRow(event.ExecutionStarted, nil)
	for i := range r.entries {
		r.entries[i].Soon = true
	}
	var err error
	if r.Pipeline.Config.Keys != nil { // a run requires a key for its receipt
		_, err = r.Pipeline.Config.Keys.Current(ctx)
	}
	if err == nil {
		r.Pipeline.Journal.Add(JournalRun, r.Outcome.ID, r.Outcome.Namespace)
		err = r.FlushRows(ctx)
	}
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(*audit.Unwritten)) { // after other errors the disk may have the row
			r.Pipeline.Journal.RemoveRun(r.Outcome.ID)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // nothing was written
		}
		return unrecordedError(notStartedReason, true, err)
	}
	r.started = true
	return nil
}

// endRowKind returns the kind of the end row for an end.
func endRowKind(ended string) string {
	switch ended {
	case backends.EndedOK, backends.EndedExit, backends.EndedSignal:
		return event.ExecutionCompleted
	case backends.EndedTimeout:
		return event.ExecutionTimeout
	}
	return event.ExecutionFailed
}

// endFacts returns the additional facts of the row of a run's end.
func (r *Run) endFacts(inputs map[string]string) Facts {
	res := &r.Outcome
	f := Facts{
		"ended": res.Ended, "exit_code": res.ExitCode,
		"layers":  res.LayersInForce(),
		"wall_ms": res.WallMS, "cpu_ms": res.CPUMS, "peak_memory": res.PeakMemory,
		"queue_us":  res.Timings.Queue,
		"artifacts": len(res.Artifacts), "policy_sha256": r.Pipeline.policy,
	}
	if res.Interrupted != "" {
		f["interrupted"] = res.Interrupted
	}
	if res.Warm { // warm programs share state, which auditors need to know
		f["warm"] = true
	}
	f.AddIf("signal", res.Signal, len(res.Signal))
	f.AddIf("limit", res.Limit, len(res.Limit))
	f.AddIf("hit", res.Hit, len(res.Hit))
	f.AddIf("egress", clipDecisions(res.Egress), len(res.Egress))
	f.AddIf("egress_decisions", len(res.Egress), len(res.Egress))
	f.AddIf("missing_layers", res.MissingLayers(), len(res.MissingLayers()))
	f.AddIf("unknown_tokens", r.Tokens.foundKinds(), len(r.Tokens.foundKinds()))
	if len(res.Artifacts) > 0 {
		f["artifact_list"], f["artifacts_sha256"] = r.listArtifacts(), res.SumsSHA256()
	}
	if n := len(inputs) - r.ownFiles; n > 0 { // the script is not counted: other facts name it
		f["inputs"], f["inputs_sha256"] = n, hashInputs(inputs)
	}
	r.addTimings(f)
	return f
}

// addTimings adds the start time of the run and the durations of its stages so far, in microseconds, without the
// record of its end.
func (r *Run) addTimings(f Facts) {
	t := r.Outcome.Timings
	f["began"], f["timings_us"] = r.Began.UTC().Format(time.RFC3339Nano), struct {
		Egress   int64 `json:"egress"`
		Exec     int64 `json:"exec"`
		Queue    int64 `json:"queue"`
		Sign     int64 `json:"sign"`
		Start    int64 `json:"start"`
		Validate int64 `json:"validate"`
		Vault    int64 `json:"vault"`
	}{t.Egress, t.Exec, t.Queue, t.Sign, t.Start, t.Validate, t.Vault}
}

// MissingLayers returns the names of the layers that are not in force.
func (r Outcome) MissingLayers() []string {
	var names []string
	for _, l := range r.Layers {
		if !l.InForce {
			names = append(names, l.Name)
		}
	}
	return names
}

// listArtifacts returns the first artifacts; the row also has the hash of the whole list.
func (r *Run) listArtifacts() []signer.Artifact {
	list, names := []signer.Artifact{}, 0
	for _, a := range r.Outcome.Artifacts {
		if names += len(a.Name); names > maxNames || len(list) >= 10*maxItems {
			break
		}
		a.Name = r.Clean(a.Name)
		list = append(list, a)
	}
	return list
}

// clipDecisions returns the first decisions with their texts cut. The texts are redacted already.
func clipDecisions(all []egress.Record) []egress.Record {
	list := slices.Clone(all[:min(len(all), maxItems)])
	for i := range list {
		list[i].Name, list[i].Reason = safetext.Clip(list[i].Name, MaxText), safetext.Clip(list[i].Reason, MaxText)
	}
	return list
}

func hashInputs(sums map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(h, "%s  %q\n", sums[name], name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Hash returns the SHA-256 of b in hex.
func Hash(b []byte) string {
	sum := sha256.Sum256(b)
	return string(hex.AppendEncode(make([]byte, 0, 2*sha256.Size), sum[:]))
}

// Capture selects texts that the log holds in addition to hashes, redacted and cut.
type Capture struct{ Code, Output bool }

// ExecutionCaptured is the kind of row with captured text. Listeners don't get it: fewer people may read the text.
const ExecutionCaptured = "execution.captured"

// maxCaptured bounds a captured text, in bytes: JSON may need six bytes for one, and a row has room for 1 MiB.
const maxCaptured = 64 << 10

// CapturedText is text of at most maxCaptured bytes in a row.
type CapturedText string

// CaptureOutput adds rows with the run's output and displays, which are redacted already.
func (r *Run) CaptureOutput() {
	if !r.Pipeline.Config.Capture.Output {
		return
	}
	if text := r.Outcome.displaysJSON(); text != nil {
		r.AddRow(ExecutionCaptured, Facts{"value": CapturedText(text), "value_bytes": len(text)})
	}
	r.AddRow(ExecutionCaptured, Facts{
		"stdout": CapturedText(r.Outcome.Stdout), "stdout_bytes": int64(len(r.Outcome.Stdout)) + r.Outcome.StdoutCut,
		"stderr": CapturedText(r.Outcome.Stderr), "stderr_bytes": int64(len(r.Outcome.Stderr)) + r.Outcome.StderrCut,
	})
}

// displaysJSON returns value, displays and error as JSON, nil without any.
func (r Outcome) displaysJSON() []byte {
	if r.Value == nil && r.Displays == nil && r.Error == nil {
		return nil
	}
	text, err := json.Marshal(map[string]any{"value": r.Value, "displays": r.Displays, "error": r.Error})
	if err != nil {
		return nil // can't happen: all values are text
	}
	return text
}
