package pipeline

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// HostRead reads a part of a file of the host. It comes to a [HostContent].
type HostRead struct {
	HostCaller
	Path   string
	Offset int64 // bytes to leave out
	Max    int64 // bytes to return; 0 is all
	// Encoding is "text", which refuses what is not UTF-8, "base64", or "" for the former where that is possible. Both
	// are about what Content is taken from: it holds the bytes themselves.
	Encoding string
}

// HostContent is a part of a file. Text is free of the namespace's secrets, and then offsets count what is told.
// Other content has none: a file in which one is found is withheld.
type HostContent struct {
	Path    string
	Content []byte
	Text    bool
	Total   int64 // bytes of the whole
	Next    int64 // where to read on; 0 if there is no more
	SHA256  string
}

func (q HostRead) subject() subject { return about("host_file_read", q.Namespace, q.Session) }

func (q HostRead) plan(ctx context.Context, r *run) (action[HostContent], error) {
	return planFile(ctx, r, q.HostCaller, q.Path, false, func(ctx context.Context, a files.Access) (c HostContent, err error) {
		whole, err := a.Read(ctx, q.Path)
		if err != nil {
			return c, err
		}
		c.SHA256 = hash(whole)
		r.facts["size"], r.facts["sha256"] = len(whole), c.SHA256
		if c.Text = q.Encoding == "text" || q.Encoding == "" && utf8.Valid(whole); c.Text {
			if !utf8.Valid(whole) {
				return c, refuse(StageValidate, q.Path+" is not text in UTF-8", "read it with encoding base64, or copy it into a session")
			}
			whole = []byte(r.clean(string(whole)))
		} else {
			err = r.holdsNoSecret(q.Path, whole)
		}
		if err != nil {
			return c, err
		}
		c.part(whole, q)
		r.facts["offset"], r.facts["bytes"] = q.Offset, len(c.Content)
		c.Path, r.res.Stdout = r.clean(q.Path), string(c.Content) // which the receipt is about
		return c, nil
	})
}

// holdsNoSecret refuses to hand out what can't be cleaned.
func (r *run) holdsNoSecret(name string, whole []byte) error {
	if r.p.cfg.Artifacts.ShowSecrets {
		return nil
	}
	found, err := r.unknown.scan(bytes.NewReader(whole), r.leases.Find)
	if r.unknown.policy == UnknownOff {
		found, err = r.leases.Find(bytes.NewReader(whole))
	}
	if err == nil && found {
		err = refuse(StageVault, name+" is withheld, because a secret is in it", "if it is text, read it as text, in which secrets are masked; a program is lent secrets by their names")
	}
	return err
}

// part takes the part that was asked for out of the whole. Text is cut between characters, and is at least one.
func (c *HostContent) part(whole []byte, q HostRead) {
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
