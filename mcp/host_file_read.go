package mcp

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

const aboutFileRead = `Reads a file of the host below an allowed directory. Secrets are masked, links are not followed, ` +
	`and files with credentials are refused.`

type fileReadArgs struct {
	Path     string `json:"path" about:"The file's absolute path." range:"1..4096" required:"true"`
	Offset   int64  `json:"offset" about:"Bytes to skip." range:"0..1125899906842624" default:"0"`
	MaxBytes int64  `json:"max_bytes" about:"Maximum bytes to return." range:"1..1048576" default:"65536"`
	Encoding string `json:"encoding" about:"Encoding of the returned content." oneof:"text base64" default:"text"`
	inNamespace
}

type fileReadFacts struct {
	answer.Common
	Path    string `json:"path,omitempty" about:"The file that was read."`
	Content string `json:"content,omitempty" about:"The requested part."`
	Total   int64  `json:"total_bytes,omitempty" about:"Size of the whole file in bytes, with secrets masked if it is text."`
	Next    int64  `json:"next_offset,omitempty" about:"The offset of the rest, if there is more."`
	SHA256  string `json:"sha256,omitempty" about:"SHA-256 of the whole file, unmasked."`
}

func (s *Server) hostFileRead(ctx context.Context, c *call, a *fileReadArgs) (*answer.Answer, error) {
	q := host.ReadFile{Caller: host.Caller{Namespace: c.namespace}, Path: a.Path, Offset: a.Offset, Max: a.MaxBytes, Encoding: a.Encoding}
	return do(ctx, s, q, func(got host.FileContent, _ pipeline.Outcome) *answer.Answer { return renderFileRead(got, a.Offset) })
}

func renderFileRead(got host.FileContent, offset int64) *answer.Answer {
	f := &fileReadFacts{Path: got.Path, Content: string(got.Content), Total: got.Total, Next: got.Next, SHA256: got.SHA256}
	if !got.Text {
		f.Content = base64.StdEncoding.EncodeToString(got.Content)
	}
	from := ""
	if offset > 0 {
		from = fmt.Sprintf("; bytes from %d on", offset)
	}
	text := fmt.Sprintf("%s, %s%s:\n%s", safetext.Model(got.Path), answer.Size(got.Total), from, safetext.Model(f.Content))
	switch {
	case got.Total == 0:
		text = safetext.Model(got.Path) + " is empty"
	case offset >= got.Total:
		text = fmt.Sprintf("%s has %d bytes: offset %d is past the end", safetext.Model(got.Path), got.Total, offset)
	case got.Next > 0:
		text += fmt.Sprintf("\n[%d bytes follow: call again with \"offset\": %d]", got.Total-got.Next, got.Next)
	}
	return &answer.Answer{Text: text, Facts: f}
}
