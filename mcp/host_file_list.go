package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

const aboutFileList = `Lists an allowed directory of the host.`

type fileListArgs struct {
	Path      string `json:"path" about:"The directory's absolute path." range:"1..4096" required:"true"`
	Recursive bool   `json:"recursive" about:"Also lists subdirectories." default:"false"`
	Limit     int    `json:"limit" about:"Maximum number of entries." range:"1..10000" default:"1000"`
	inNamespace
}

type fileListFacts struct {
	answer.Common
	Entries []files.Entry `json:"entries,omitempty" about:"The directory's entries."`
	More    bool          `json:"more,omitempty" about:"True if there is more than limit."`
}

func (s *Server) hostFileList(ctx context.Context, c *call, a *fileListArgs) (*answer.Answer, error) {
	l, _, err := pipeline.Do(ctx, s.cfg.Pipeline, host.ListDirectory{
		Caller: host.Caller{Namespace: c.namespace}, Path: a.Path, Recursive: a.Recursive, Limit: a.Limit,
	})
	if err != nil {
		return nil, err
	}
	f := &fileListFacts{Entries: l.Entries, More: l.More}
	text := []string{fmt.Sprintf("%s has %s:", safetext.Model(a.Path), strings.Replace(answer.Count(len(l.Entries), "entry"), "entrys",
		"entries", 1))}
	for _, e := range l.Entries {
		line := "- " + safetext.Model(e.Path)
		switch e.Kind {
		case "file":
			line += ", " + answer.Size(e.Size)
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
	return &answer.Answer{Text: strings.Join(text, "\n"), Facts: f}, nil
}
