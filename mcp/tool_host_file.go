package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// hostCaller returns the namespace and the session of a call.
func (c *call) hostCaller() pipeline.HostCaller {
	return pipeline.HostCaller{Namespace: c.namespace, Session: c.text("session_id")}
}

func (s *Server) hostFileRead(ctx context.Context, c *call) (*answer, error) {
	q := pipeline.HostRead{HostCaller: c.hostCaller(), Path: c.text("path"), Offset: int64(c.number("offset")), Max: cmp.Or(int64(c.number("max_bytes")), 65536),
		Encoding: cmp.Or(c.text("encoding"), "text")}
	res, err := s.cfg.Pipeline.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	got := res.Answer.(pipeline.HostContent)
	f := &fileReadFacts{Path: got.Path, Content: string(got.Content), Total: got.Total, Next: got.Next, SHA256: got.SHA256}
	if !got.Text {
		f.Content = base64.StdEncoding.EncodeToString(got.Content)
	}
	from := ""
	if q.Offset > 0 {
		from = fmt.Sprintf("; bytes from %d on", q.Offset)
	}
	text := fmt.Sprintf("%s, %s%s:\n%s", readable(got.Path), size(got.Total), from, readable(f.Content))
	switch {
	case got.Total == 0:
		text = readable(got.Path) + " is empty"
	case q.Offset >= got.Total:
		text = fmt.Sprintf("%s has %d bytes: there is nothing from offset %d on", readable(got.Path), got.Total, q.Offset)
	case got.Next > 0:
		text += fmt.Sprintf("\n[%d bytes follow: call again with \"offset\": %d]", got.Total-got.Next, got.Next)
	}
	return &answer{text: text, facts: f}, nil
}

func (s *Server) hostFileWrite(ctx context.Context, c *call) (*answer, error) {
	content := []byte(c.text("content"))
	if c.text("encoding") == "base64" {
		var err error
		if content, err = fromBase64(c.text("content")); err != nil {
			return nil, bad("content", "%v", err)
		}
	}
	res, err := s.cfg.Pipeline.Do(ctx, pipeline.HostWrite{HostCaller: c.hostCaller(), Path: c.text("path"), Content: content, Mode: c.text("mode")})
	if err != nil {
		return nil, err
	}
	return hostWritten(res, "wrote "), nil
}

func (s *Server) hostFileList(ctx context.Context, c *call) (*answer, error) {
	res, err := s.cfg.Pipeline.Do(ctx, pipeline.HostList{HostCaller: c.hostCaller(), Path: c.text("path"), Recursive: c.flag("recursive"), Limit: int(c.number("limit"))})
	if err != nil {
		return nil, err
	}
	l := res.Answer.(pipeline.HostListing)
	f := &fileListFacts{Entries: l.Entries, More: l.More}
	text := []string{fmt.Sprintf("%s has %s:", readable(c.text("path")), strings.Replace(count(len(l.Entries), "entry"), "entrys", "entries", 1))}
	for _, e := range l.Entries {
		line := "- " + readable(e.Path)
		switch e.Kind {
		case "file":
			line += ", " + size(e.Size)
		case "directory":
			line += "/"
		default:
			line += ", " + e.Kind
		}
		text = append(text, line)
	}
	if l.More {
		text = append(text, `[there are more: list the directories below one by one, or call again with a higher "limit"]`)
	}
	return &answer{text: strings.Join(text, "\n"), facts: f}, nil
}

func (s *Server) hostFileCopy(ctx context.Context, c *call) (*answer, error) {
	res, err := s.cfg.Pipeline.Do(ctx, pipeline.HostCopy{HostCaller: c.hostCaller(), Run: c.text("request_id"),
		Source: c.text("source"), Destination: c.text("destination"), Overwrite: c.flag("overwrite")})
	if err != nil {
		return nil, err
	}
	a := hostWritten(res, "copied "+readable(c.text("source"))+" to ")
	w := res.Answer.(pipeline.HostWritten)
	if w.Stored {
		a.facts.(*fileFacts).RequestID = res.ID
		a.text += fmt.Sprintf("\nit is kept: execute_code takes it with \"files\": {%q: {\"request_id\": %q}}", readable(w.Path), res.ID)
	}
	return a, nil
}

func hostWritten(res pipeline.Result, did string) *answer {
	w := res.Answer.(pipeline.HostWritten)
	text := fmt.Sprintf("%s%s, %s, SHA-256 %s", did, readable(w.Path), size(w.Size), w.SHA256)
	for _, n := range w.Notes {
		text += "\nnote: " + readable(n)
	}
	return &answer{text: text, facts: &fileFacts{Path: w.Path, Size: w.Size, SHA256: w.SHA256, Notes: w.Notes}}
}
