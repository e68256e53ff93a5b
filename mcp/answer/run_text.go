package answer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Run returns the answer about a run that has ended.
func (s Renderer) Run(res pipeline.Outcome, err error) *Answer {
	all := &RunFacts{Outcome: Outcome{
		RunIdentity: RunIdentity{
			RequestID: res.ID, State: "done", Namespace: res.Namespace, SessionID: res.Session, Language: res.Language, Backend: res.Backend, Profile: res.Profile,
		},
		runEnd: runEnd{Ended: res.Ended, Signal: res.Signal, Limit: res.Limit, LimitsHit: res.Hit},
		runOutput: runOutput{
			StdoutBytes: int64(len(res.Stdout)) + res.StdoutCut, StderrBytes: int64(len(res.Stderr)) + res.StderrCut,
			StdoutLost: res.StdoutCut, StderrLost: res.StderrCut,
		},
		runProducts:    runProducts{StateLost: res.StateLost},
		runContainment: runContainment{Layers: res.LayersInForce()},
		runUsage: runUsage{res.WallMS, res.CPUMS, float64(res.Timings.Total) / 1000, float64(res.Timings.Queue) / 1000,
			res.Warm, safetext.Clip(OneLine(res.Cold), 200), res.PeakMemory},
	}}
	if len(res.Receipt) > 0 {
		sum := sha256.Sum256(res.Receipt)
		all.Receipt = hex.EncodeToString(sum[:])
	}
	words := WordsOf("execute_code")
	for _, h := range res.Hints {
		all.Hints = append(all.Hints, h.In(words))
	}
	for _, w := range res.Warnings {
		all.Warnings = append(all.Warnings, w.In(words))
	}
	t := &runReport{s: s, res: res, f: all}
	if err == nil && res.Refused != nil {
		err = res.Refused
	}
	if err != nil {
		r := Explain("execute_code", err)
		all.Refused = &r
		t.line("%s", r)
	} else {
		all.ExitCode = &res.ExitCode
		t.line("%s", EndOf(res))
		if res.StateLost != "" {
			t.line("state lost: %s", res.StateLost)
		}
		t.streams()
		t.values()
	}
	t.egress()
	t.f.Packages = slices.Clone(t.res.Packages) // a job's result is read again, and answers are made readable in place
	t.artifacts()
	t.footer()
	return &Answer{Text: strings.TrimRight(t.text.String(), "\n"), Facts: all, Extra: t.extra, Failed: err != nil}
}

func (t *runReport) streams() {
	res := t.res
	forStdout, forStderr := StreamShares(res)
	t.f.Stdout, t.f.StdoutURI = t.stream("stdout", res.Stdout, forStdout)
	t.f.Stderr, t.f.StderrURI = t.stream("stderr", res.Stderr, forStderr)
	if res.Stdout == "" && res.Stderr == "" && res.Value == nil && res.Error == nil && len(res.Displays) == 0 {
		t.line("it wrote nothing")
	}
}

// StreamShares returns how many bytes of stdout and of stderr an answer has room for.
func StreamShares(res pipeline.Outcome) (stdout, stderr int) {
	stderr = min(len(res.Stderr), max(maxStderr, MaxStreams-len(res.Stdout)))
	return MaxStreams - stderr, stderr
}

// stream returns what was written, and where the whole of it is if it is too long for that. Sizes stand
// in front, so that no output can pretend to be what comes behind it. That some was lost, a hint says.
func (t *runReport) stream(name, all string, limit int) (part, uri string) {
	if all == "" {
		return "", ""
	}
	note := ""
	if LooksBinary(all) {
		limit, note = min(limit, MaxBinary), ", which are no text"
	}
	where := ""
	if len(all) > limit && t.stored() {
		uri = RunURI(t.res.ID, name)
		where = "; get_artifacts with this request_id and name \"" + name + "\" reads them"
		t.link(uri, name, "the whole "+name, "text/plain", int64(len(all)))
	}
	part = Excerpt(all, limit, where)
	t.line("%s (%d bytes%s):\n%s", name, len(all), note, strings.TrimSuffix(part, "\n"))
	return part, uri
}

// values writes the value, displays and error. Images go to the content, and not into the text.
func (t *runReport) values() {
	room := maxImages
	if e := t.res.Error; e != nil {
		trace := Excerpt(e.Traceback, MaxTraceback, "")
		t.f.ProgramError = &programError{safetext.Model(e.Type), safetext.Model(safetext.Clip(e.Message, maxValue)), trace}
		if trace == "" {
			trace = safetext.Model(e.Type + ": " + safetext.Clip(e.Message, maxValue))
		}
		t.line("error:\n%s", strings.TrimSuffix(trace, "\n"))
	}
	for i, b := range t.res.Displays {
		if i == MaxEntries {
			t.line("%d more displays are left out", len(t.res.Displays)-i)
			break
		}
		t.f.Displays = append(t.f.Displays, t.bundle("display", b, &room))
	}
	if len(t.res.Value) > 0 {
		v := t.bundle("value", t.res.Value, &room)
		t.f.Value = &v
	}
}

func (t *runReport) bundle(what string, b map[string]string, room *int) display {
	v := display{Types: []string{}}
	for mime := range b {
		v.Types = append(v.Types, mime)
	}
	slices.Sort(v.Types)
	v.Text = Excerpt(b["text/plain"], maxValue, "; print it or write it to a file for the rest")
	if h := b["text/html"]; len(h) <= maxRich {
		v.HTML = h
	}
	if j := b["application/json"]; len(j) <= maxRich {
		v.JSON = j
	}
	var notes []string
	for _, mime := range []string{"image/png", "image/jpeg"} {
		if data := b[mime]; data != "" {
			notes = append(notes, t.image(mime, data, room))
			break
		}
	}
	if v.Text != "" {
		notes = append(notes, strings.TrimSuffix(v.Text, "\n"))
	}
	if notes == nil {
		notes = []string{strings.Join(v.Types, ", ")}
	}
	t.line("%s: %s", what, strings.Join(notes, " "))
	return v
}

func (t *runReport) artifacts() {
	res := t.res
	stored := len(res.Artifacts) > 0 && t.stored()
	var images []string
	if stored {
		images = t.saved()
	}
	if len(res.Artifacts) > 0 {
		t.line("artifacts%s:", map[bool]string{true: " (get_artifacts with this request_id fetches them)"}[stored])
	}
	for i, a := range res.Artifacts {
		f := FactsOfFile(res.ID, a, stored)
		t.f.Artifacts = append(t.f.Artifacts, f)
		switch {
		case i == MaxEntries:
			t.line("- and %d more", len(res.Artifacts)-i)
		case i > MaxEntries:
		case slices.Contains(images, a.Name):
			t.line("- %s, shown", f)
		default:
			t.line("- %s", f)
		}
	}
	if res.Dropped > 0 {
		t.line("%s left out: %s", Count(res.Dropped, "artifact"), res.Why)
	}
	if res.ArtifactsFailed != "" {
		t.line("artifacts could not all be saved: %s", res.ArtifactsFailed)
	}
}

func (t *runReport) footer() {
	for _, h := range t.f.Hints {
		t.line("hint: %s", h)
	}
	for _, w := range t.f.Warnings {
		t.line("warning: %s", w)
	}
	for _, l := range t.res.Layers {
		if !l.InForce {
			t.f.Missing = append(t.f.Missing, l.Name)
		}
	}
	if t.f.Missing != nil {
		t.line("%s", WithoutLayers(t.f.Missing, t.res.Backend, t.res.Profile))
	}
	if t.res.ID != "" {
		t.line("request_id: %s", t.res.ID)
	}
}

// WithoutLayers names layers that did not hold. Where all did, nobody has to read that after each run.
func WithoutLayers(missing []string, backend, profile string) string {
	return fmt.Sprintf("contained without %s (%s, %s)", strings.Join(missing, ", "), backend, profile)
}
