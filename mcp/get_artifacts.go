package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/resource"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// maxNamed bounds the variables and files in the text; the facts have all.
const maxNamed = 50

func moreText(n int) string {
	if n <= maxNamed {
		return ""
	}
	return fmt.Sprintf("- and %d more", n-maxNamed)
}

const aboutArtifacts = `Fetches the files and output of runs. Without name it lists those of a run, or of all runs of a session; with name it returns ` +
	`that file, or stdout or stderr: text and images inline, in parts if long. Each run also has a signed receipt, "receipt.intoto.json".`

type artifactsArgs struct {
	Run      string `json:"request_id" about:"The run of the file." range:"..64"`
	Session  string `json:"session_id" about:"The session whose runs to search. Requires request_id or session_id." range:"..64"`
	Name     string `json:"name" about:"The file's name as listed, or \"stdout\", \"stderr\", \"receipt.intoto.json\", or \"changes.diff\", the changes to a workspace. Default: lists all." range:"..4096"`
	Offset   int64  `json:"offset" about:"Bytes to skip." range:"0..1099511627776" default:"0"`
	MaxBytes int64  `json:"max_bytes" about:"Maximum bytes to return inline." range:"1..1048576" default:"32768"`
	Encoding string `json:"encoding" about:"Encoding of the result; for a receipt, text is readable and raw is the signed JSON." oneof:"text raw base64" default:"text"`
	inNamespace
}

// defaultInline is the default size of returned content, in bytes: as much as a model can read.
const defaultInline = 32 << 10

type artifactsFacts struct {
	answer.Common
	Runs    []leftFacts          `json:"runs,omitempty" about:"Runs with their files, newest first."`
	Name    string               `json:"name,omitempty" about:"The fetched file."`
	MIME    string               `json:"mime,omitempty" about:"Its MIME type."`
	Part    string               `json:"part,omitempty" about:"The requested part, if it is text."`
	Base64  string               `json:"base64,omitempty" about:"The requested part, if it is neither text nor an image."`
	Offset  int64                `json:"offset" about:"Offset of the part."`
	Total   int64                `json:"total_bytes" about:"Total size in bytes."`
	Changes *answer.ChangesFacts `json:"changes,omitempty" about:"The changes to the workspace, for name changes.diff."`
	Next    int64                `json:"next_offset,omitempty" about:"The offset of the rest, if there is more."`
	URI     string               `json:"uri,omitempty" about:"The URI of its resource."`
}

type leftFacts struct {
	RequestID string                 `json:"request_id" about:"The run's id."`
	Ended     string                 `json:"ended" about:"How it ended."`
	Time      string                 `json:"time" about:"When it ended."`
	Stdout    int64                  `json:"stdout_bytes" about:"Stored bytes of its standard output."`
	Stderr    int64                  `json:"stderr_bytes" about:"Stored bytes of its standard error."`
	Artifacts []answer.ArtifactFacts `json:"artifacts,omitempty" about:"Its artifacts."`
}

func (s *Server) getArtifacts(ctx context.Context, c *call, q *artifactsArgs) (*answer.Answer, error) {
	if s.cfg.Results == nil {
		return nil, &pipeline.Error{Stage: pipeline.StageValidate, Denied: true, Reason: "this server stores no output or artifacts",
			Remedy: pipeline.Remedy{"print the output that you need, in parts if it is long"}}
	}
	name := q.Name
	if q.Run != "" && name == signer.ReceiptName {
		return s.receipt(ctx, c, q)
	}
	if name == answer.ChangesName {
		return s.showChanges(ctx, c, q)
	}
	runs, err := s.runsOf(c, q)
	if err != nil {
		return nil, err
	}
	if name == "" {
		a := runList(runs)
		if set, err := workspace.Get(s.cfg.Pipeline, c.namespace, q.Run); q.Run != "" && err == nil {
			facts := answer.FactsOfChanges(&set)
			a.Facts.(*artifactsFacts).Changes = facts
			a.Text += fmt.Sprintf("\n- %s, the changes to the workspace: %s", answer.ChangesName, facts)
		}
		return a, nil
	}
	for _, r := range runs {
		if part, ok := partName(r, name); ok {
			return s.fetch(ctx, q, r, name, part)
		}
	}
	return nil, unknownFile(runs, name)
}

// runsOf returns the runs that a call asks for, newest first, without those of other namespaces.
func (s *Server) runsOf(c *call, q *artifactsArgs) ([]results.Record, error) {
	id, session := q.Run, q.Session
	switch {
	case id == "" && session == "":
		return nil, operation.ArgumentError("request_id", "is missing: send it, or session_id")
	case id != "":
		r, err := s.cfg.Results.Get(id)
		if err == nil && (c.oneNamespace && r.Namespace != c.namespace || session != "" && r.Session != session) {
			err = fmt.Errorf("run %s: %w", safetext.Clip(id, 64), results.ErrUnknown)
		}
		return []results.Record{r}, err
	}
	runs := s.cfg.Results.List(results.Filter{Namespace: c.namespace, Session: session, Limit: 200})
	if len(runs) == 0 {
		return nil, &pipeline.Error{Stage: pipeline.StageValidate, Denied: true,
			Reason: fmt.Sprintf("no stored runs in session %q of namespace %s", safetext.Clip(session, 64), c.namespace),
			Remedy: pipeline.Remedy{"inspect_state without arguments lists the sessions; execute_code with a session_id runs code in it"}}
	}
	return runs, nil
}

// partName returns the name of an artifact in the result store.
func partName(r results.Record, name string) (string, bool) {
	if name == "stdout" || name == "stderr" || name == signer.ReceiptName {
		return name, true
	}
	for _, n := range []string{name, strings.TrimPrefix(name, "/workspace/"), strings.TrimPrefix(name, "./"),
		strings.TrimPrefix(name, "files/")} {
		if i := slices.IndexFunc(r.Artifacts, func(a signer.Artifact) bool { return a.Name == n || safetext.Model(a.Name) == n }); i >= 0 {
			return "files/" + r.Artifacts[i].Name, true
		}
	}
	return "", false
}

func unknownFile(runs []results.Record, name string) error {
	var names []string
	for _, r := range runs {
		for _, a := range r.Artifacts {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if near := spelling.Nearest(name, names); near != "" {
		return operation.ArgumentError("name", "unknown file %q: did you mean %q?", safetext.Clip(name, 200), near)
	}
	if len(names) == 0 {
		return operation.ArgumentError("name", "unknown file %q: the run has only stdout and stderr", safetext.Clip(name, 200))
	}
	return operation.ArgumentError("name", "unknown file %q: choose from %s", safetext.Clip(name, 200),
		safetext.Clip(strings.Join(names, ", "), 1000))
}

func runList(runs []results.Record) *answer.Answer {
	f := &artifactsFacts{}
	var text []string
	printed, bare := 0, 0
	for _, r := range runs {
		left := leftFacts{RequestID: r.ID, Ended: r.Ended, Time: answer.Stamp(r.Time), Stdout: int64(len(r.Stdout)), Stderr: int64(len(r.Stderr))}
		for _, a := range r.Artifacts {
			left.Artifacts = append(left.Artifacts, answer.FactsOfFile(r.ID, a, true))
		}
		f.Runs = append(f.Runs, left)
		switch {
		case len(runs) > 1 && len(r.Artifacts) == 0 && left.Stdout+left.Stderr == 0:
			bare++
			continue
		case printed == answer.MaxEntries:
			continue
		}
		printed++
		text = append(text, fmt.Sprintf("run %s (%s): %s, %s of output", r.ID, r.Ended, answer.Count(len(r.Artifacts), "file"),
			answer.Size(left.Stdout+left.Stderr)))
		for _, one := range []struct {
			name string
			size int64
		}{{"stdout", left.Stdout}, {"stderr", left.Stderr}} {
			if len(runs) == 1 && one.size > 0 {
				text = append(text, fmt.Sprintf("- %s, %s", one.name, answer.Size(one.size)))
			}
		}
		for j, a := range left.Artifacts {
			switch {
			case j == maxNamed:
				text = append(text, moreText(len(left.Artifacts)))
			case j < maxNamed:
				text = append(text, "- "+a.String())
			}
		}
	}
	if older := len(runs) - printed - bare; older > 0 {
		text = append(text, fmt.Sprintf("and %s", answer.Count(older, "older run")))
	}
	if bare > 0 {
		text = append(text, fmt.Sprintf("no files or output of %s", answer.Count(bare, "run")))
	}
	return &answer.Answer{Text: strings.Join(text, "\n"), Facts: f}
}

// readStored reads a stored part of a run, or its receipt.
func (s *Server) readStored(ctx context.Context, r results.Record, stored string, offset, limit int64) (results.Part, error) {
	if stored != signer.ReceiptName {
		return s.cfg.Results.Read(r.ID, stored, offset, limit)
	}
	if s.cfg.Log == nil {
		return results.Part{}, errors.New("this server has no audit log")
	}
	text, err := s.cfg.Log.Receipt(ctx, r.ID)
	if err != nil {
		return results.Part{}, err
	}
	from := min(offset, int64(len(text)))
	return results.Part{Data: text[from:min(from+limit, int64(len(text)))], Size: int64(len(text)), MIME: "application/json"}, nil
}

// fetch returns a part of a file.
func (s *Server) fetch(ctx context.Context, q *artifactsArgs, r results.Record, name, stored string) (*answer.Answer, error) {
	offset := q.Offset
	p, err := s.readStored(ctx, r, stored, offset, q.MaxBytes)
	if err != nil {
		return nil, err
	}
	if offset > p.Size {
		return nil, operation.ArgumentError("offset", "%d is past the end: %s has %d bytes", offset, safetext.Model(safetext.Clip(name, 200)),
			p.Size)
	}
	f := &artifactsFacts{Name: name, MIME: p.MIME, Offset: offset, Total: p.Size, URI: answer.RunURI(r.ID, stored)}
	if file, ok := strings.CutPrefix(stored, "files/"); ok {
		f.URI = answer.FileURI(r.ID, file)
	}
	a := &answer.Answer{Facts: f}
	a.Text = fmt.Sprintf("%s of run %s, %s, %s", safetext.Model(name), r.ID, answer.KindOfFile(p.MIME), answer.Size(p.Size))
	part := func(n int) { // in the answer
		if f.Next = offset + int64(n); int64(n) != p.Size {
			a.Text += fmt.Sprintf("; bytes %d to %d", offset, f.Next)
		}
	}
	whole, data := false, resource.WholeRunes(p.Data)
	switch {
	case q.Encoding == "base64":
		f.Base64 = base64.StdEncoding.EncodeToString(p.Data)
		part(len(p.Data))
		a.Text += ", as base64:\n" + f.Base64
	case utf8.Valid(data) && !resource.Binary(p.MIME) && !answer.LooksBinary(string(data)):
		f.Part = string(data)
		part(len(data))
		a.Text += ":\n" + safetext.Model(f.Part)
	case strings.HasPrefix(p.MIME, "image/") && offset == 0 && p.Size <= answer.MaxImage/4*3:
		if all, err := s.cfg.Results.Read(r.ID, stored, 0, p.Size); err == nil {
			p = all
		}
		a.Extra = append(a.Extra, mcp.NewImageContent(base64.StdEncoding.EncodeToString(p.Data), p.MIME))
		a.Text += ", shown as an image"
		f.Next, whole = p.Size, true
	default:
		f.Base64 = base64.StdEncoding.EncodeToString(p.Data)
		if f.Next = offset + int64(len(p.Data)); f.Next >= p.Size {
			f.Next = 0
		}
		a.Text += ": it is not text\nwhat to do: "
		if file, ok := strings.CutPrefix(stored, "files/"); ok {
			a.Text += fmt.Sprintf(`have code read it: execute_code with "files": {%q: {"request_id": %q, "artifact": %q}}; or `, path.Base(file),
				r.ID, file)
		}
		a.Text += `call again with "encoding": "base64"`
	}
	switch {
	case f.Base64 != "" && q.Encoding != "base64": // the rest is binary, too
	case f.Next >= p.Size:
		whole, f.Next = whole || offset == 0, 0
	default:
		a.Text += fmt.Sprintf("\n[%d bytes follow: call again with \"offset\": %d]", p.Size-f.Next, f.Next)
	}
	switch {
	case stored == signer.ReceiptName:
		f.URI = "" // the receipt is in the log, which outlives the result store
	case !whole:
		l := mcp.NewResourceLink(f.URI, safetext.Model(name), "artifact of run "+r.ID, p.MIME)
		l.Size = &p.Size
		a.Extra = append(a.Extra, l)
	}
	return a, nil
}

// receipt returns the receipt of a run, which the log keeps. Runs of other namespaces are unknown.
func (s *Server) receipt(ctx context.Context, c *call, q *artifactsArgs) (*answer.Answer, error) {
	id := q.Run
	last, err := s.lastRow(ctx, id)
	if err != nil {
		return nil, err
	}
	if last.Seq == 0 || c.oneNamespace && last.Namespace != c.namespace {
		return nil, fmt.Errorf("run %s: %w", safetext.Clip(id, 64), results.ErrUnknown)
	}
	if why := unsigned[last.Kind]; why != "" {
		return nil, &pipeline.Error{Stage: pipeline.StageAudit, Denied: true, Reason: fmt.Sprintf("run %s has no receipt: %s",
			safetext.Clip(id, 64), why),
			Remedy: pipeline.Remedy{"audit_execution with its request_id returns its rows"}}
	}
	a, err := s.fetch(ctx, q, results.Record{ID: last.Run}, signer.ReceiptName, signer.ReceiptName)
	bytes := q.Offset > 0 || q.MaxBytes != defaultInline // the offset counts bytes
	if err != nil || q.Encoding != "text" || bytes {
		return a, err
	}
	text, err := s.cfg.Log.Receipt(ctx, last.Run)
	if err != nil {
		return nil, err
	}
	a.Text, err = answer.ReceiptText(text)
	return a, err
}

// unsigned has the reasons for a missing receipt, by the kind of the run's last row.
var unsigned = map[string]string{
	"execution.refused":    "it was refused, so nothing ran",
	"execution.lost":       "its server was killed before it ended",
	event.ExecutionStarted: "it is still running, or was cut off",
	event.SessionCreated:   "it is a session; each of its runs has a receipt",
	event.SessionKilled:    "it was a session; each of its runs has a receipt",
}

// lastRow returns the newest row about a run, or a row without number.
func (s *Server) lastRow(ctx context.Context, id string) (last audit.Row, err error) {
	if s.cfg.Log == nil {
		return last, &pipeline.Error{Stage: pipeline.StageAudit, Denied: true, Reason: "this server has no audit log"}
	}
	for row, err := range s.cfg.Log.Rows(ctx, audit.Filter{Run: strings.ToUpper(id), Limit: 1}) {
		if err != nil {
			return last, err
		}
		last = row
	}
	return last, nil
}
