package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// edits are earlier versions of edited files. The mutex is held during an edit, so that concurrent edits do not
// overwrite each other.
type edits struct {
	mu    sync.Mutex
	all   []version // newest last
	bytes int
}

// version is the state of a file before an edit.
type version struct {
	path   string
	text   string
	exists bool
}

// Bounds of a session's versions, and of an edited file, in bytes.
const (
	maxVersions = 200
	maxHistory  = 16 << 20
	maxEdited   = 4 << 20
)

func (e *edits) remember(v version) {
	e.all, e.bytes = append(e.all, v), e.bytes+len(v.text)
	for len(e.all) > maxVersions || e.bytes > maxHistory {
		e.bytes -= len(e.all[0].text)
		e.all = e.all[1:]
	}
}

// editInput is the input of the editor.
type editInput struct {
	Command string  `json:"command"`
	Path    string  `json:"path"`
	Range   []int   `json:"view_range"`
	Text    *string `json:"file_text"`
	Old     string  `json:"old_str"`
	New     string  `json:"new_str"`
	Line    *int    `json:"insert_line"`
	Insert  string  `json:"insert_text"`
}

// The contents of the editor's result blocks.
type (
	viewed struct {
		Type     string `json:"type"`
		FileType string `json:"file_type"`
		Content  string `json:"content"`
		Lines    int    `json:"num_lines"`
		Start    int    `json:"start_line"`
		Total    int    `json:"total_lines"`
	}
	created struct {
		Type   string `json:"type"`
		Update bool   `json:"is_file_update"`
	}
	changed struct {
		Type     string   `json:"type"`
		OldStart int      `json:"old_start"`
		OldLines int      `json:"old_lines"`
		NewStart int      `json:"new_start"`
		NewLines int      `json:"new_lines"`
		Lines    []string `json:"lines"`
	}
)

// editor edits the files of one session.
type editor struct {
	s  *Server
	r  *http.Request
	st *state
}

// problem is the reason why an edit failed.
type problem struct{ code, text string }

func (p *problem) Error() string { return p.text }

// edit runs an edit. A failed edit is described in the content.
func (s *Server) edit(r *http.Request, st *state, c call) (any, error) {
	var in editInput
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return failure(c.Tool, codeInput, "input must be an object: "+err.Error()), nil
	}
	st.edits.mu.Lock()
	defer st.edits.mu.Unlock()
	e := editor{s, r, st}
	var content any
	name, err := inWorkspace(in.Path)
	if err == nil {
		switch in.Command {
		case "view":
			content, err = e.view(name, in.Range)
		case "create":
			content, err = e.create(name, in.Text)
		case "str_replace":
			content, err = e.replace(name, in.Old, in.New)
		case "insert":
			content, err = e.insert(name, in.Line, in.Insert)
		case "undo_edit":
			content, err = e.undo(name)
		default:
			err = &problem{codeInput, "command must be view, create, str_replace, insert or undo_edit"}
		}
	}
	p, is := errors.AsType[*problem](err)
	switch reason := guest.ReasonOf(err); {
	case err == nil:
		return content, nil
	case is:
		return failure(c.Tool, p.code, p.text), nil
	case reason == guest.NotFound:
		return failure(c.Tool, codeMissing, err.Error()), nil
	case reason != "", errors.Is(err, errOutside):
		return failure(c.Tool, codeInput, err.Error()), nil
	}
	return notRun(c.Tool, err)
}

// load returns the text of a file.
func (e editor) load(name string) (string, error) {
	entry, f, err := inside.ReadFile(e.r.Context(), e.s.cfg.Pipeline, e.st.namespace, e.r.PathValue("id"), name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if entry.Size > maxEdited {
		return "", &problem{codeInput, fmt.Sprintf("%s has %d bytes; the maximum is %d", name, entry.Size, maxEdited)}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxEdited || !utf8.Valid(b):
		return "", &problem{codeInput, name + " is binary or too large"}
	}
	return string(b), nil
}

// save writes a file, and remembers its previous version.
func (e editor) save(before version, text string) error {
	if len(text) > maxEdited {
		return &problem{codeInput, fmt.Sprintf("the file would be too large: the maximum is %d bytes", maxEdited)}
	}
	if err := e.write(before.path, text); err != nil {
		return err
	}
	e.st.edits.remember(before)
	return nil
}

func (e editor) write(name, text string) error {
	_, _, err := pipeline.Do(e.r.Context(), e.s.cfg.Pipeline, inside.WriteFile{Namespace: e.st.namespace, Session: e.r.PathValue("id"),
		FileWrite: guest.FileWrite{Path: name, Whole: true}, Content: strings.NewReader(text)})
	return err
}

// view shows a file, a range of its lines, or the entries of a directory.
func (e editor) view(name string, lines []int) (any, error) {
	entry, err := inside.StatFile(e.r.Context(), e.s.cfg.Pipeline, e.st.namespace, e.r.PathValue("id"), name)
	if err != nil {
		return nil, err
	}
	text := ""
	if entry.Kind == guest.Directory {
		if lines != nil {
			return nil, &problem{codeInput, "view_range is for files, and " + name + " is a directory"}
		}
		text, err = e.listDirectory(name)
	} else {
		text, err = e.load(name)
	}
	if err != nil {
		return nil, err
	}
	all := linesOf(text)
	from, to := 1, len(all)
	if lines != nil {
		if len(lines) != 2 || lines[0] < 1 || lines[0] > max(1, len(all)) || lines[1] != -1 && lines[1] < lines[0] {
			return nil, &problem{codeInput, fmt.Sprintf("view_range must be [first, last] with lines from 1 to %d; last may be -1", len(all))}
		}
		from = lines[0]
		if lines[1] != -1 {
			to = min(lines[1], len(all))
		}
		text = strings.Join(all[from-1:max(from-1, to)], "\n")
	}
	return viewed{editorTool + "_view_result", "text", text, max(0, to-from+1), from, len(all)}, nil
}

// linesOf returns the lines of a text. A final newline does not begin another line.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// listDirectory lists a directory two levels deep, without hidden files.
func (e editor) listDirectory(name string) (string, error) {
	list, release, err := inside.ListFiles(e.r.Context(), e.s.cfg.Pipeline, e.st.namespace, e.r.PathValue("id"), name, 2)
	if err != nil {
		return "", err
	}
	defer release()
	lines := []string{name}
	for _, f := range list {
		rest := strings.TrimPrefix(f.Path, strings.TrimSuffix(name, "/")+"/")
		if slices.ContainsFunc(strings.Split(rest, "/"), func(part string) bool { return strings.HasPrefix(part, ".") }) {
			continue
		}
		line := f.Path
		if f.Kind == guest.Directory {
			line += "/"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// create writes a whole file.
func (e editor) create(name string, text *string) (any, error) {
	if text == nil {
		return nil, &problem{codeInput, "create needs file_text"}
	}
	before, err := e.load(name)
	is := err == nil
	if err != nil && guest.ReasonOf(err) != guest.NotFound {
		return nil, err
	}
	if err := e.save(version{name, before, is}, *text); err != nil {
		return nil, err
	}
	return created{editorTool + "_create_result", is}, nil
}

// replace replaces a text that occurs exactly once.
func (e editor) replace(name, old, text string) (any, error) {
	if old == "" {
		return nil, &problem{codeInput, "str_replace needs old_str"}
	}
	before, err := e.load(name)
	if err != nil {
		return nil, err
	}
	switch n := strings.Count(before, old); {
	case n == 0:
		return nil, &problem{codeNoMatch, "old_str not found in " + name + " (it must match exactly)"}
	case n > 1 || strings.Contains(before[strings.Index(before, old)+1:], old):
		return nil, &problem{codeMatches, fmt.Sprintf("old_str occurs more than once in %s: extend it until it is unique", name)}
	}
	after := strings.Replace(before, old, text, 1)
	if err := e.save(version{name, before, true}, after); err != nil {
		return nil, err
	}
	return difference("str_replace", before, after), nil
}

// insert inserts text after a line; 0 is before the first.
func (e editor) insert(name string, line *int, text string) (any, error) {
	if line == nil {
		return nil, &problem{codeInput, "insert needs insert_line and insert_text"}
	}
	before, err := e.load(name)
	if err != nil {
		return nil, err
	}
	all := strings.SplitAfter(before, "\n")
	if last := len(all) - 1; all[last] == "" {
		all = all[:last]
	}
	if *line < 0 || *line > len(all) {
		return nil, &problem{codeInput, fmt.Sprintf("insert_line must be from 0 to %d", len(all))}
	}
	if *line > 0 && !strings.HasSuffix(all[*line-1], "\n") {
		all[*line-1] += "\n"
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	after := strings.Join(slices.Insert(all, *line, text), "")
	if err := e.save(version{name, before, true}, after); err != nil {
		return nil, err
	}
	return difference("insert", before, after), nil
}

// undo reverts the last edit of a file.
func (e editor) undo(name string) (any, error) {
	h := &e.st.edits
	i := len(h.all) - 1
	for ; i >= 0 && h.all[i].path != name; i-- {
	}
	if i < 0 {
		return nil, &problem{codeInput, "no edit of " + name + " to undo"}
	}
	before, err := e.load(name)
	if err != nil {
		return nil, err
	}
	v := h.all[i]
	if v.exists {
		err = e.write(name, v.text)
	} else {
		_, _, err = pipeline.Do(e.r.Context(), e.s.cfg.Pipeline, inside.ChangeFile{
			Namespace: e.st.namespace, Session: e.r.PathValue("id"), Op: "remove", Path: name,
		})
	}
	if err != nil {
		return nil, err
	}
	h.all, h.bytes = slices.Delete(h.all, i, i+1), h.bytes-len(v.text)
	return difference("undo_edit", before, v.text), nil
}

// difference returns the replaced lines and their replacement.
func difference(command, before, after string) changed {
	old, now := linesOf(before), linesOf(after)
	same := 0
	for same < len(old) && same < len(now) && old[same] == now[same] {
		same++
	}
	tail := 0
	for tail < len(old)-same && tail < len(now)-same && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	c := changed{Type: editorTool + "_" + command + "_result", OldStart: same + 1, OldLines: len(old) - same - tail, NewStart: same + 1,
		NewLines: len(now) - same - tail, Lines: []string{}}
	for _, l := range old[same : len(old)-tail] {
		c.Lines = append(c.Lines, "-"+l)
	}
	for _, l := range now[same : len(now)-tail] {
		c.Lines = append(c.Lines, "+"+l)
	}
	return c
}

// workspace is the directory of accessible files.
const workspace = "/workspace"

// errOutside is the error of a path outside of the workspace.
var errOutside = door.Refuse(http.StatusForbidden, "the path is outside of "+workspace)

// inWorkspace returns the absolute path for a name in the workspace.
func inWorkspace(name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return "", &problem{codeInput, "the path is missing or contains a NUL byte"}
	}
	if !path.IsAbs(name) {
		name = workspace + "/" + name
	}
	name = path.Clean(name)
	if name != workspace && !strings.HasPrefix(name, workspace+"/") {
		return "", errOutside
	}
	return name, nil
}
