package answer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
)

// Run returns the answer about a finished run.
func (s Renderer) Run(res pipeline.Outcome, err error) *Answer {
	all := &RunFacts{Outcome: Outcome{
		RunIdentity: RunIdentity{
			RequestID: res.ID, State: "done", Namespace: res.Namespace, SessionID: res.Session, Language: res.Language, Backend: res.Backend,
			Profile: res.Profile,
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
		t.writeLine("%s", r)
	} else {
		all.ExitCode = &res.ExitCode
		t.writeLine("%s", EndOf(res))
		if res.StateLost != "" {
			t.writeLine("state lost: %s", res.StateLost)
		}
		t.writeStreams()
		t.writeValues()
	}
	t.writeEgress()
	t.f.Packages = slices.Clone(t.res.Packages) // answers are made readable in place, and a job's result is read more than once
	t.writeArtifacts()
	t.writeChanges()
	t.writeFooter()
	return &Answer{Text: strings.TrimRight(t.text.String(), "\n"), Facts: all, Extra: t.extra, Failed: err != nil}
}

func (t *runReport) writeStreams() {
	res := t.res
	forStdout, forStderr := StreamShares(res)
	t.f.Stdout, t.f.StdoutURI = t.writeStream("stdout", res.Stdout, forStdout)
	t.f.Stderr, t.f.StderrURI = t.writeStream("stderr", res.Stderr, forStderr)
	if res.Stdout == "" && res.Stderr == "" && res.Value == nil && res.Error == nil && len(res.Displays) == 0 {
		t.writeLine("no output")
	}
}

// StreamShares returns the bytes of stdout and of stderr that fit into an answer.
func StreamShares(res pipeline.Outcome) (stdout, stderr int) {
	stderr = min(len(res.Stderr), max(maxStderr, MaxStreams-len(res.Stdout)))
	return MaxStreams - stderr, stderr
}

// writeStream writes an excerpt of a stream, and returns it with the URI of the whole if it is longer. Sizes come
// first, so that output can't imitate the lines after it. A hint reports lost output.
func (t *runReport) writeStream(name, all string, limit int) (part, uri string) {
	if all == "" {
		return "", ""
	}
	note := ""
	if LooksBinary(all) {
		limit, note = min(limit, MaxBinary), ", binary"
	}
	where := ""
	if len(all) > limit && t.stored() {
		uri = RunURI(t.res.ID, name)
		where = "; get_artifacts with this request_id and name \"" + name + "\" returns them"
		t.addLink(uri, name, "the whole "+name, "text/plain", int64(len(all)))
	}
	part = Excerpt(all, limit, where)
	t.writeLine("%s (%d bytes%s):\n%s", name, len(all), note, strings.TrimSuffix(part, "\n"))
	return part, uri
}

// writeValues writes the value, displays and error. Images go to the content, not into the text.
func (t *runReport) writeValues() {
	room := maxImages
	if e := t.res.Error; e != nil {
		trace := Excerpt(e.Traceback, MaxTraceback, "")
		t.f.ProgramError = &programError{safetext.Model(e.Type), safetext.Model(safetext.Clip(e.Message, maxValue)), trace}
		if trace == "" {
			trace = safetext.Model(e.Type + ": " + safetext.Clip(e.Message, maxValue))
		}
		t.writeLine("error:\n%s", strings.TrimSuffix(trace, "\n"))
	}
	for i, b := range t.res.Displays {
		if i == MaxEntries {
			t.writeLine("%d more displays omitted", len(t.res.Displays)-i)
			break
		}
		t.f.Displays = append(t.f.Displays, t.writeDisplay("display", b, &room))
	}
	if len(t.res.Value) > 0 {
		v := t.writeDisplay("value", t.res.Value, &room)
		t.f.Value = &v
	}
}

func (t *runReport) writeDisplay(what string, b map[string]string, room *int) display {
	v := display{Types: []string{}}
	for mime := range b {
		v.Types = append(v.Types, mime)
	}
	slices.Sort(v.Types)
	v.Text = Excerpt(b["text/plain"], maxValue, "; print it or write it to a file to get the rest")
	if h := b["text/html"]; len(h) <= maxRich {
		v.HTML = h
	}
	if j := b["application/json"]; len(j) <= maxRich {
		v.JSON = j
	}
	var notes []string
	for _, mime := range []string{"image/png", "image/jpeg"} {
		if data := b[mime]; data != "" {
			notes = append(notes, t.addImage(mime, data, room))
			break
		}
	}
	if v.Text != "" {
		notes = append(notes, strings.TrimSuffix(v.Text, "\n"))
	}
	if notes == nil {
		notes = []string{strings.Join(v.Types, ", ")}
	}
	t.writeLine("%s: %s", what, strings.Join(notes, " "))
	return v
}

func (t *runReport) writeArtifacts() {
	res := t.res
	stored := len(res.Artifacts) > 0 && t.stored()
	var images []string
	if stored {
		images = t.addSavedImages()
	}
	if len(res.Artifacts) > 0 {
		t.writeLine("artifacts%s:", map[bool]string{true: " (get_artifacts with this request_id fetches them)"}[stored])
	}
	for i, a := range res.Artifacts {
		f := FactsOfFile(res.ID, a, stored)
		t.f.Artifacts = append(t.f.Artifacts, f)
		switch {
		case i == MaxEntries:
			t.writeLine("- and %d more", len(res.Artifacts)-i)
		case i > MaxEntries:
		case slices.Contains(images, a.Name):
			t.writeLine("- %s, shown", f)
		default:
			t.writeLine("- %s", f)
		}
	}
	if res.Dropped > 0 {
		t.writeLine("%s omitted: %s", Count(res.Dropped, "artifact"), res.Why)
	}
	if res.ArtifactsFailed != "" {
		t.writeLine("some artifacts could not be saved: %s", res.ArtifactsFailed)
	}
}

// ChangesName is the name of a change set's difference among the files of its run.
const ChangesName = "changes.diff"

// AskChanges says how an agent has a change set applied.
func AskChanges(id string) string {
	return fmt.Sprintf("get_artifacts with request_id %q and name %q shows it; request_host_access with kind changes and pattern %q asks a "+
		"person to apply it", id, ChangesName, id)
}

func (t *runReport) writeChanges() {
	if t.f.Changes = FactsOfChanges(t.res.Changes); t.f.Changes != nil {
		t.writeLine("%s", t.f.Changes)
		if t.f.Changes.Status == changes.StatusProposed {
			t.writeLine("what to do: %s", AskChanges(t.f.Changes.ID))
		}
	}
	if t.res.ChangesFailed != "" {
		t.writeLine("changes: %s", t.res.ChangesFailed)
	}
}

func (t *runReport) writeFooter() {
	for _, h := range t.f.Hints {
		t.writeLine("hint: %s", h)
	}
	for _, w := range t.f.Warnings {
		t.writeLine("warning: %s", w)
	}
	for _, l := range t.res.Layers {
		if !l.InForce {
			t.f.Missing = append(t.f.Missing, l.Name)
		}
	}
	if t.f.Missing != nil {
		t.writeLine("%s", WithoutLayers(t.f.Missing, t.res.Backend, t.res.Profile))
	}
	if t.res.ID != "" {
		t.writeLine("request_id: %s", t.res.ID)
	}
}

// WithoutLayers names the layers that were not in force. Runs with all layers have no such line.
func WithoutLayers(missing []string, backend, profile string) string {
	return fmt.Sprintf("contained without %s (%s, %s)", strings.Join(missing, ", "), backend, profile)
}
