package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

const aboutBridge = `Sets a variable in a session (in a shell also a file) from a value or from a variable of another session, ` +
	`even of another language, by way of JSON. With path or tar, copies files and directories.`

type bridgeArgs struct {
	Session string          `json:"session_id" about:"The target session." range:"..64"`
	Key     string          `json:"key" about:"The variable's name in the target session." range:"..200"`
	Value   json.RawMessage `json:"value" about:"The value as JSON: \"[1, 2, 3]\", \"{\\\"a\\\": 1}\", \"42\". Other text is a string; a string that looks like JSON needs its own quotes: \"\\\"42\\\"\". Omit it with from_session_id."`
	From    string          `json:"from_session_id" about:"The source session." range:"..64"`
	FromKey string          `json:"from_key" about:"The variable's name in from_session_id. Default: key." range:"..200"`
	Path    string          `json:"path" about:"Instead of key: a file or directory in /workspace/exports of from_session_id to copy. Without session_id it is stored for get_artifacts, a directory as a tar." range:"..4096"`
	Tar     string          `json:"tar" about:"Instead of key: a tar in base64, to be unpacked completely or not at all."`
	To      string          `json:"to" about:"The target directory of path or tar. Default: /workspace." range:"..4096"`
	inNamespace
}

type bridgeFacts struct {
	answer.Common
	RequestID string                 `json:"request_id,omitempty" about:"Its id in the audit log."`
	SessionID string                 `json:"session_id,omitempty" about:"The target session."`
	Key       string                 `json:"key,omitempty" about:"The variable's name."`
	Kind      string                 `json:"kind,omitempty" about:"Its type: object, list, string, number, boolean or null; absent if it came from another session."`
	Bytes     int                    `json:"bytes,omitempty" about:"Size of the value's JSON in bytes, absent if it came from another session; or of the files."`
	Files     int                    `json:"files,omitempty" about:"Number of written files."`
	Artifacts []answer.ArtifactFacts `json:"artifacts,omitempty" about:"The stored files."`
}

func (s *Server) bridgeData(ctx context.Context, c *call, a *bridgeArgs) (*answer.Answer, error) {
	if string(a.Value) == "null" && (a.From != "" || a.Tar != "") {
		a.Value = nil // some callers send null instead of omitting it
	}
	if a.Path != "" || a.Tar != "" {
		return s.bridgeFiles(ctx, c, a)
	}
	b := session.Bridge{Namespace: c.namespace, Session: a.Session, From: a.From, Key: a.Key, As: a.Key}
	f := &bridgeFacts{SessionID: b.Session, Key: b.As}
	what := "variable " + cmp.Or(a.FromKey, b.Key) + " of session " + b.From
	switch {
	case a.Session == "":
		return nil, operation.ArgumentError("session_id", "is missing: name the target session")
	case a.Key == "":
		return nil, operation.ArgumentError("key", "is missing: name the variable, or send path or tar instead")
	case a.To != "":
		return nil, operation.ArgumentError("to", "is for path and tar")
	case a.Value != nil && b.From != "":
		return nil, operation.ArgumentError("value", "conflicts with from_session_id: send one of them")
	case b.From != "":
		b.Key = cmp.Or(a.FromKey, b.Key)
	case a.Value == nil:
		return nil, operation.ArgumentError("value", "is missing: send it, or from_session_id")
	default:
		b.Value = jsonValue(a.Value)
		f.Kind, f.Bytes = jsonKind(b.Value), len(b.Value)
		what = fmt.Sprintf("%s, %s of JSON", f.Kind, answer.Size(int64(f.Bytes)))
	}
	_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, b)
	if err != nil {
		return nil, err
	}
	f.RequestID = res.ID
	return &answer.Answer{Text: fmt.Sprintf("%s is set in session %s (%s)\nrequest_id: %s", b.As, b.Session, what, res.ID), Facts: f}, nil
}

// bridgeFiles copies exported files into another session, stores them as artifacts, or writes the files of a tar.
func (s *Server) bridgeFiles(ctx context.Context, c *call, a *bridgeArgs) (*answer.Answer, error) {
	var put pipeline.Effect[guest.Unpacked]
	switch {
	case a.Path != "" && a.Tar != "":
		return nil, operation.ArgumentError("tar", "conflicts with path: send one of them")
	case a.Key != "" || a.Value != nil || a.FromKey != "":
		return nil, operation.ArgumentError("key", "conflicts with key, value and from_key: send either a variable or files")
	case a.Tar != "" && a.From != "":
		return nil, operation.ArgumentError("from_session_id", "conflicts with tar: send one of them")
	case a.Tar != "" && a.Session == "":
		return nil, operation.ArgumentError("session_id", "is missing: name the target session")
	case a.Tar != "":
		content, err := fromBase64(strings.TrimPrefix(a.Tar, "data:;base64,"))
		if err != nil {
			return nil, operation.ArgumentError("tar", "%v", err)
		}
		put = inside.WriteDirectory{Namespace: c.namespace, Session: a.Session, Path: cmp.Or(a.To, "~"), Content: bytes.NewReader(content)}
	case a.From == "":
		return nil, operation.ArgumentError("from_session_id", "is missing: name the session with the exported files")
	case a.Session == "":
		return s.storeExport(ctx, inside.KeepFiles{Namespace: c.namespace, Session: a.From, Path: a.Path})
	default:
		put = inside.CopyFiles{Namespace: c.namespace, From: a.From, Path: a.Path, Session: a.Session, To: a.To}
	}
	u, res, err := pipeline.Do(ctx, s.cfg.Pipeline, put)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s, %s, are in %s of session %s\nrequest_id: %s", answer.Count(u.Files, "file"), answer.Size(u.Bytes),
		safetext.Model(cmp.Or(a.To, "/workspace")), a.Session, res.ID)
	return &answer.Answer{Text: text, Facts: &bridgeFacts{RequestID: res.ID, SessionID: a.Session, Files: u.Files, Bytes: int(u.Bytes)}}, nil
}

// storeExport stores exported files as artifacts.
func (s *Server) storeExport(ctx context.Context, q inside.KeepFiles) (*answer.Answer, error) {
	_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, q)
	if err != nil {
		return nil, err
	}
	f := &bridgeFacts{RequestID: res.ID}
	s.store.AddRun(res.ID)
	cached := runList([]results.Record{{ID: res.ID, End: res.End, Artifacts: res.Artifacts}})
	f.Artifacts = cached.Facts.(*artifactsFacts).Runs[0].Artifacts
	made := &answer.Answer{Text: fmt.Sprintf("stored as request_id: %s\n%s\nwhat to do: get_artifacts with this request_id and the name "+
		"returns it; execute_code can use it in \"files\"", res.ID, cached.Text), Facts: f}
	for _, one := range f.Artifacts {
		if one.Withheld == "" {
			made.Extra = append(made.Extra, mcp.NewResourceLink(one.URI, one.Name, "exported by session "+q.Session, one.MIME))
		}
	}
	return made, nil
}

func jsonKind(raw json.RawMessage) string {
	kinds := map[byte]string{'{': "object", '[': "list", '"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}
	return cmp.Or(kinds[bytes.TrimSpace(raw)[0]], "number")
}
