package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

func (s *Server) hostFileRead(ctx context.Context, c *call, a *fileReadArgs) (*answer, error) {
	q := pipeline.HostRead{HostCaller: pipeline.HostCaller{Namespace: c.namespace}, Path: a.Path, Offset: a.Offset, Max: a.MaxBytes, Encoding: a.Encoding}
	return do(ctx, s, q, func(got pipeline.HostContent, _ pipeline.Outcome) *answer { return hostRead(got, a.Offset) })
}

func hostRead(got pipeline.HostContent, offset int64) *answer {
	f := &fileReadFacts{Path: got.Path, Content: string(got.Content), Total: got.Total, Next: got.Next, SHA256: got.SHA256}
	if !got.Text {
		f.Content = base64.StdEncoding.EncodeToString(got.Content)
	}
	from := ""
	if offset > 0 {
		from = fmt.Sprintf("; bytes from %d on", offset)
	}
	text := fmt.Sprintf("%s, %s%s:\n%s", readable(got.Path), size(got.Total), from, readable(f.Content))
	switch {
	case got.Total == 0:
		text = readable(got.Path) + " is empty"
	case offset >= got.Total:
		text = fmt.Sprintf("%s has %d bytes: there is nothing from offset %d on", readable(got.Path), got.Total, offset)
	case got.Next > 0:
		text += fmt.Sprintf("\n[%d bytes follow: call again with \"offset\": %d]", got.Total-got.Next, got.Next)
	}
	return &answer{text: text, facts: f}
}

func (s *Server) hostFileWrite(ctx context.Context, c *call, a *fileWriteArgs) (*answer, error) {
	content := []byte(a.Content)
	if a.Encoding == "base64" {
		var err error
		if content, err = fromBase64(a.Content); err != nil {
			return nil, operation.Wrong("content", "%v", err)
		}
	}
	return do(ctx, s, pipeline.HostWrite{HostCaller: pipeline.HostCaller{Namespace: c.namespace}, Path: a.Path, Content: content, Mode: a.Mode},
		func(w pipeline.HostWritten, _ pipeline.Outcome) *answer { return hostWritten(w, "wrote ") })
}

func (s *Server) hostFileList(ctx context.Context, c *call, a *fileListArgs) (*answer, error) {
	l, _, err := pipeline.Do(ctx, s.cfg.Pipeline, pipeline.HostList{
		HostCaller: pipeline.HostCaller{Namespace: c.namespace}, Path: a.Path, Recursive: a.Recursive, Limit: a.Limit,
	})
	if err != nil {
		return nil, err
	}
	f := &fileListFacts{Entries: l.Entries, More: l.More}
	text := []string{fmt.Sprintf("%s has %s:", readable(a.Path), strings.Replace(count(len(l.Entries), "entry"), "entrys", "entries", 1))}
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

func (s *Server) hostFileCopy(ctx context.Context, c *call, a *fileCopyArgs) (*answer, error) {
	w, res, err := pipeline.Do(ctx, s.cfg.Pipeline, pipeline.HostCopy{HostCaller: pipeline.HostCaller{Namespace: c.namespace, Session: a.Session}, Run: a.Run,
		Source: a.Source, Destination: a.Destination, Overwrite: a.Overwrite})
	if err != nil {
		return nil, err
	}
	made := hostWritten(w, "copied "+readable(a.Source)+" to ")
	if w.Stored {
		made.facts.(*fileFacts).RequestID = res.ID
		made.text += fmt.Sprintf("\nit is kept: execute_code takes it with \"files\": {%q: {\"request_id\": %q}}", readable(w.Path), res.ID)
	}
	return made, nil
}

func hostWritten(w pipeline.HostWritten, did string) *answer {
	text := fmt.Sprintf("%s%s, %s, SHA-256 %s", did, readable(w.Path), size(w.Size), w.SHA256)
	for _, n := range w.Notes {
		text += "\nnote: " + readable(n)
	}
	return &answer{text: text, facts: &fileFacts{Path: w.Path, Size: w.Size, SHA256: w.SHA256, Notes: w.Notes}}
}
