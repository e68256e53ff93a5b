package mcp

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

const aboutFileWrite = `Writes a file of the host below a directory with write access, atomically. ` +
	`Hidden files (except .gitignore and similar), and files that the host may execute or load by itself, are refused.`

type fileWriteArgs struct {
	Path     string `json:"path" about:"The file's absolute path." range:"1..4096" required:"true"`
	Content  string `json:"content" about:"The content to write." required:"true"`
	Encoding string `json:"encoding" about:"Encoding of content." oneof:"text base64" default:"text"`
	Mode     string `json:"mode" about:"For an existing file: refuse, overwrite or append." oneof:"create overwrite append" default:"create"`
	inNamespace
}

type fileFacts struct {
	answer.Common
	Path   string `json:"path,omitempty" about:"The file that was written."`
	Size   int64  `json:"size,omitempty" about:"Its size in bytes."`
	SHA256 string `json:"sha256,omitempty" about:"Its SHA-256."`

	Notes     []string `json:"notes,omitempty" about:"Properties of the replaced file that were lost."`
	RequestID string   `json:"request_id,omitempty" about:"The id of the stored copy, for later runs."`
}

func (s *Server) hostFileWrite(ctx context.Context, c *call, a *fileWriteArgs) (*answer.Answer, error) {
	content := []byte(a.Content)
	if a.Encoding == "base64" {
		var err error
		if content, err = fromBase64(a.Content); err != nil {
			return nil, operation.ArgumentError("content", "%v", err)
		}
	}
	return do(ctx, s, host.WriteFile{Caller: host.Caller{Namespace: c.namespace}, Path: a.Path, Content: content, Mode: a.Mode},
		func(w host.Written, _ pipeline.Outcome) *answer.Answer { return renderFileWritten(w, "wrote ") })
}

func renderFileWritten(w host.Written, did string) *answer.Answer {
	text := fmt.Sprintf("%s%s, %s, SHA-256 %s", did, safetext.Model(w.Path), answer.Size(w.Size), w.SHA256)
	for _, n := range w.Notes {
		text += "\nnote: " + safetext.Model(n)
	}
	return &answer.Answer{Text: text, Facts: &fileFacts{Path: w.Path, Size: w.Size, SHA256: w.SHA256, Notes: w.Notes}}
}
