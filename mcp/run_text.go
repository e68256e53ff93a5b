package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// How much of a run is told. What models read is paid for by the word.
const (
	maxStreams   = 8 << 10 // bytes of stdout and stderr together
	maxStderr    = 3 << 10 // of these, where stdout needs the room
	maxBinary    = 256     // bytes of what is no text: nobody reads more
	maxValue     = 4 << 10
	maxTraceback = 6 << 10
	maxEntries   = 20 // artifacts, hosts, packages
	maxRich      = 64 << 10
	maxImage     = 4 << 20 // bytes of base64, of one image
	maxImages    = 8 << 20 // of all
)

// ran returns the answer about a run that has ended.
func (s *Server) ran(res pipeline.Outcome, err error) *answer {
	s.runs.note(res.ID)
	all := &runFacts{outcome: outcome{
		RequestID: res.ID, State: "done", Namespace: res.Namespace, SessionID: res.Session, Language: res.Language,
		Backend: res.Backend, Profile: res.Profile, Ended: res.Ended, Signal: res.Signal, Limit: res.Limit, LimitsHit: res.Hit,
		StdoutBytes: int64(len(res.Stdout)) + res.StdoutCut, StderrBytes: int64(len(res.Stderr)) + res.StderrCut,
		StdoutLost: res.StdoutCut, StderrLost: res.StderrCut, StateLost: res.StateLost,
		WallMS: res.WallMS, CPUMS: res.CPUMS, TotalMS: float64(res.Timings.Total) / 1000, QueueMS: float64(res.Timings.Queue) / 1000,
		Warm: res.Warm, Cold: clip(oneLine(res.Cold), 200), PeakMemory: res.PeakMemory, Layers: res.LayersInForce(),
	}}
	if len(res.Receipt) > 0 {
		sum := sha256.Sum256(res.Receipt)
		all.Receipt = hex.EncodeToString(sum[:])
	}
	words := wordsOf("execute_code")
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
		r := explain("execute_code", err)
		all.Refused = &r
		t.line("%s", r)
	} else {
		all.ExitCode = &res.ExitCode
		t.line("%s", endOf(res))
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
	return &answer{text: strings.TrimRight(t.text.String(), "\n"), facts: all, extra: t.extra, failed: err != nil}
}

// runReport puts the text of one run together, and the facts beside it.
type runReport struct {
	s     *Server
	res   pipeline.Outcome
	f     *runFacts
	text  strings.Builder
	extra []mcp.Content
}

func (t *runReport) line(format string, a ...any) { fmt.Fprintf(&t.text, format+"\n", a...) }

// endOf describes how a program ended, and when.
func endOf(res pipeline.Outcome) string {
	how := fmt.Sprintf("exit code %d", res.ExitCode)
	switch res.Ended {
	case backends.EndedSignal:
		how += ", killed by " + res.Signal
	case backends.EndedTimeout:
		return fmt.Sprintf("%s, timed out after %.2f s", how, res.WallMS/1000)
	case backends.EndedOOM:
		how += ", killed because it was out of memory"
	case backends.EndedLimit:
		how += ", ended by its limit of " + res.Limit
	case backends.EndedCancelled:
		how += ", cancelled"
	}
	return fmt.Sprintf("%s, after %.2f s", how, res.WallMS/1000)
}

func (t *runReport) streams() {
	res := t.res
	forStdout, forStderr := shares(res)
	t.f.Stdout, t.f.StdoutURI = t.stream("stdout", res.Stdout, forStdout)
	t.f.Stderr, t.f.StderrURI = t.stream("stderr", res.Stderr, forStderr)
	if res.Stdout == "" && res.Stderr == "" && res.Value == nil && res.Error == nil && len(res.Displays) == 0 {
		t.line("it wrote nothing")
	}
}

// shares returns how many bytes of stdout and of stderr an answer has room for.
func shares(res pipeline.Outcome) (stdout, stderr int) {
	stderr = min(len(res.Stderr), max(maxStderr, maxStreams-len(res.Stdout)))
	return maxStreams - stderr, stderr
}

// stream returns what was written, and where the whole of it is if it is too long for that. Sizes stand
// in front, so that no output can pretend to be what comes behind it. That some was lost, a hint says.
func (t *runReport) stream(name, all string, limit int) (part, uri string) {
	if all == "" {
		return "", ""
	}
	note := ""
	if noText(all) {
		limit, note = min(limit, maxBinary), ", which are no text"
	}
	where := ""
	if len(all) > limit && t.stored() {
		uri = runURI(t.res.ID, name)
		where = "; get_artifacts with this request_id and name \"" + name + "\" reads them"
		t.link(uri, name, "the whole "+name, "text/plain", int64(len(all)))
	}
	part = excerpt(all, limit, where)
	t.line("%s (%d bytes%s):\n%s", name, len(all), note, strings.TrimSuffix(part, "\n"))
	return part, uri
}

// stored reports whether the run can be asked for later.
func (t *runReport) stored() bool {
	if t.s.cfg.Results == nil {
		return false
	}
	_, err := t.s.cfg.Results.Read(t.res.ID, "stdout", 0, 1)
	return err == nil
}

func (t *runReport) link(uri, name, about, mime string, size int64) {
	l := mcp.NewResourceLink(uri, name, about, mime)
	l.Size = &size
	t.extra = append(t.extra, l)
}

// values writes the value, displays and error. Images go to the content, and not into the text.
func (t *runReport) values() {
	room := maxImages
	if e := t.res.Error; e != nil {
		trace := excerpt(e.Traceback, maxTraceback, "")
		t.f.ProgramError = &programError{readable(e.Type), readable(clip(e.Message, maxValue)), trace}
		if trace == "" {
			trace = readable(e.Type + ": " + clip(e.Message, maxValue))
		}
		t.line("error:\n%s", strings.TrimSuffix(trace, "\n"))
	}
	for i, b := range t.res.Displays {
		if i == maxEntries {
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
	v.Text = excerpt(b["text/plain"], maxValue, "; print it or write it to a file for the rest")
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
		f := factsOfFile(res.ID, a, stored)
		t.f.Artifacts = append(t.f.Artifacts, f)
		switch {
		case i == maxEntries:
			t.line("- and %d more", len(res.Artifacts)-i)
		case i > maxEntries:
		case slices.Contains(images, a.Name):
			t.line("- %s, shown", f)
		default:
			t.line("- %s", f)
		}
	}
	if res.Dropped > 0 {
		t.line("%s left out: %s", count(res.Dropped, "artifact"), res.Why)
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
		t.line("%s", without(t.f.Missing, t.res.Backend, t.res.Profile))
	}
	if t.res.ID != "" {
		t.line("request_id: %s", t.res.ID)
	}
}

// without names layers that did not hold. Where all did, nobody has to read that after each run.
func without(missing []string, backend, profile string) string {
	return fmt.Sprintf("contained without %s (%s, %s)", strings.Join(missing, ", "), backend, profile)
}

// kindOfFile returns a MIME type without the charset, which is the same for all text here.
func kindOfFile(mime string) string { return strings.TrimSuffix(mime, "; charset=utf-8") }
