package mcp

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

const aboutFileCopy = `Copies a file between the host and a session, an artifact of a run to the host, ` +
	`or a file of the host to a stored copy for files of later runs, within allowed directories.`

type fileCopyArgs struct {
	Source      string `json:"source" about:"A path: absolute on the host, or relative to the working directory of session_id or among the artifacts of request_id." range:"1..4096" required:"true"`
	Destination string `json:"destination" about:"Also a path; without session_id, a relative one is the name of a stored copy for files of execute_code." range:"1..4096" required:"true"`
	Session     string `json:"session_id" about:"The session that the relative path belongs to." range:"..64"`
	Run         string `json:"request_id" about:"The run whose artifact is the source." range:"..64"`
	Overwrite   bool   `json:"overwrite" about:"Replaces an existing file." default:"false"`
	inNamespace
}

func (s *Server) hostFileCopy(ctx context.Context, c *call, a *fileCopyArgs) (*answer.Answer, error) {
	w, res, err := pipeline.Do(ctx, s.cfg.Pipeline, host.CopyFile{Caller: host.Caller{Namespace: c.namespace, Session: a.Session}, Run: a.Run,
		Source: a.Source, Destination: a.Destination, Overwrite: a.Overwrite})
	if err != nil {
		return nil, err
	}
	made := renderFileWritten(w, "copied "+safetext.Model(a.Source)+" to ")
	if w.Stored {
		made.Facts.(*fileFacts).RequestID = res.ID
		made.Text += fmt.Sprintf("\nit is stored: use it in execute_code with \"files\": {%q: {\"request_id\": %q}}", safetext.Model(w.Path),
			res.ID)
	}
	return made, nil
}
