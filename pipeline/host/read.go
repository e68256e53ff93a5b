package host

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// ReadFile reads a part of a file of the host. Its answer is a [FileContent].
type ReadFile struct {
	Caller
	Path   string
	Offset int64 // bytes to skip
	Max    int64 // bytes to return; 0 is all
	// Encoding is "text", which refuses content other than UTF-8, "base64", or "" for text if possible. It selects
	// the kind of Content, which always holds raw bytes.
	Encoding string
}

// FileContent is a part of a file. Text is redacted, and offsets count redacted bytes. Other content is withheld if
// it contains a secret.
type FileContent struct {
	Path    string
	Content []byte
	Text    bool
	Total   int64 // bytes of the whole
	Next    int64 // offset of the next part; 0 at the end
	SHA256  string
}

func (q ReadFile) Subject() pipeline.Subject {
	return pipeline.About("host_file_read", q.Namespace, q.Session)
}

func (q ReadFile) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[FileContent], error) {
	return planFile(ctx, r, q.Caller, q.Path, false, func(ctx context.Context, a files.Access) (c FileContent, err error) {
		whole, err := a.Read(ctx, q.Path)
		if err != nil {
			return c, err
		}
		c.SHA256 = pipeline.Hash(whole)
		r.Facts["size"], r.Facts["sha256"] = len(whole), c.SHA256
		if c.Text = q.Encoding == "text" || q.Encoding == "" && utf8.Valid(whole); c.Text {
			if !utf8.Valid(whole) {
				return c, pipeline.Refuse(pipeline.StageValidate, q.Path+" is not text in UTF-8",
					"read it with encoding base64, or copy it into a session")
			}
			whole = []byte(r.Clean(string(whole)))
		} else {
			err = holdsNoSecret(r, q.Path, whole)
		}
		if err != nil {
			return c, err
		}
		c.part(whole, q)
		r.Facts["offset"], r.Facts["bytes"] = q.Offset, len(c.Content)
		c.Path, r.Outcome.Stdout = r.Clean(q.Path), string(c.Content) // for the receipt
		return c, nil
	})
}

// holdsNoSecret refuses content with a secret that can't be redacted.
func holdsNoSecret(r *pipeline.Run, name string, whole []byte) error {
	if r.Pipeline.Config.Artifacts.ShowSecrets {
		return nil
	}
	found, err := r.Tokens.ScanFile(bytes.NewReader(whole), r.Leases.ContainsSecret)
	if r.Tokens.Policy == pipeline.UnknownOff {
		found, err = r.Leases.ContainsSecret(bytes.NewReader(whole))
	}
	if err == nil && found {
		err = pipeline.Refuse(pipeline.StageVault, name+" is withheld, because it contains a secret",
			"if it is text, read it as text, which is masked; programs get secrets by name")
	}
	return err
}

// part cuts the requested part from the whole. Text is cut between characters, at least one.
func (c *FileContent) part(whole []byte, q ReadFile) {
	c.Total = int64(len(whole))
	from := max(0, min(q.Offset, c.Total))
	to := c.Total
	if q.Max > 0 {
		to = from + min(q.Max, c.Total-from)
	}
	if c.Text {
		for from < c.Total && !utf8.RuneStart(whole[from]) {
			from++
		}
		for to > from && to < c.Total && !utf8.RuneStart(whole[to]) {
			to--
		}
		if to <= from && from < c.Total {
			_, n := utf8.DecodeRune(whole[from:])
			to = from + int64(n)
		}
	}
	c.Content = whole[from:to]
	if to < c.Total {
		c.Next = to
	}
}
