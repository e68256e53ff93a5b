package mcp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

const (
	scheme = "sandbox://runs/"
	// maxPart is what one read of a resource returns where the client does not say, in bytes. Larger
	// ones must be read in parts: the whole of them would not fit a model anyway.
	maxPart = 1 << 20
	// codeNoResource is for resources that there are not, in protocols before 2026-07-28.
	codeNoResource = -32002
)

func runURI(id, name string) string { return scheme + id + "/" + name }

func fileURI(id, name string) string { return runURI(id, "files/"+escaped(name)) }

// escaped returns a file's name as the part of a URI.
func escaped(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

func (s *Server) listTemplates(m *message) (mcp.ResultMetadata, *fault) {
	if bad := m.whole(); bad != nil {
		return nil, bad
	}
	list := &mcp.ListResourceTemplatesResult{}
	for _, r := range []struct{ template, name, about, mime string }{
		{scheme + "{id}/files/{+name}{?offset,length}", "artifact", "A file that a run left in its working directory. ", ""},
		{scheme + "{id}/stderr{?offset,length}", "stderr", "Standard error of a run. ", "text/plain"},
		{scheme + "{id}/stdout{?offset,length}", "stdout", "Standard output of a run. ", "text/plain"},
	} {
		list.ResourceTemplates = append(list.ResourceTemplates, mcp.NewResourceTemplate(r.template, r.name, mcp.WithTemplateMIMEType(r.mime),
			mcp.WithTemplateDescription(r.about+"offset and length choose bytes; _meta tells offset, length and the total size.")))
	}
	return list, nil
}

// errNoResource is about a URI that no run's resource can have.
var errNoResource = errors.New("no resource")

func (s *Server) readResource(m *message) (mcp.ResultMetadata, *fault) {
	var p struct {
		URI string `json:"uri"`
	}
	if bad := m.read(&p); bad != nil {
		return nil, bad
	}
	all, err := s.read(p.URI)
	switch {
	case err == nil:
		return &mcp.ReadResourceResult{Contents: all}, nil
	case !m.modern && (errors.Is(err, results.ErrUnknown) || errors.Is(err, errNoResource)):
		return nil, m.refuse(codeNoResource, err.Error())
	}
	return nil, m.refuse(mcp.INVALID_PARAMS, err.Error())
}

// read returns the part that a URI names.
func (s *Server) read(uri string) ([]mcp.ResourceContents, error) {
	if strings.HasPrefix(uri, skillScheme) {
		return s.readSkill(uri)
	}
	id, name, offset, length, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	p, err := s.part(s.cfg.Namespace, id, name, offset, length)
	if err != nil {
		return nil, err
	}
	data := wholeRunes(p.Data)
	text := !binary(p.MIME) && utf8.Valid(data)
	if !text {
		data = p.Data
	}
	meta := map[string]any{"offset": offset, "length": len(data), "total": p.Size}
	if next := offset + int64(len(data)); next < p.Size {
		meta["nextOffset"] = next
	}
	return contents(uri, p.MIME, data, text, meta), nil
}

func contents(uri, mime string, data []byte, text bool, meta map[string]any) []mcp.ResourceContents {
	if text {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: string(data), Meta: meta}}
	}
	return []mcp.ResourceContents{mcp.BlobResourceContents{URI: uri, MIMEType: mime, Blob: base64.StdEncoding.EncodeToString(data), Meta: meta}}
}

// binary reports whether no part of such a file is text, also one that looks like it: clients put the
// parts together, and can't if some are text and some are not.
func binary(mime string) bool {
	kind, _, _ := strings.Cut(mime, "/")
	return mime == "application/octet-stream" || mime == "application/pdf" || strings.HasSuffix(mime, "zip") ||
		slices.Contains([]string{"image", "audio", "video", "font"}, kind) && !strings.Contains(mime, "xml")
}

// part reads from the result store. namespace "" may read all.
func (s *Server) part(namespace, id, name string, offset, length int64) (results.Part, error) {
	if s.cfg.Results == nil {
		return results.Part{}, fmt.Errorf("this server keeps no output and no artifacts: %w", results.ErrUnknown)
	}
	if namespace != "" {
		r, err := s.cfg.Results.Get(id)
		if err == nil && r.Namespace != namespace {
			err = fmt.Errorf("run %s: %w", clip(id, 40), results.ErrUnknown)
		}
		if err != nil {
			return results.Part{}, err
		}
	}
	return s.cfg.Results.Read(id, name, offset, length)
}

// parseURI takes sandbox://runs/ID/NAME?offset=N&length=N apart.
func parseURI(uri string) (id, name string, offset, length int64, err error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	path, query, _ := strings.Cut(rest, "?")
	id, name, found := strings.Cut(path, "/")
	if !ok || !found {
		return "", "", 0, 0, fmt.Errorf("%q is %w: they are like %s", clip(uri, 200), errNoResource, runURI("ID", "stdout"))
	}
	values, err := url.ParseQuery(query)
	if err == nil {
		name, err = url.PathUnescape(name)
	}
	if err != nil {
		return "", "", 0, 0, fmt.Errorf("read the URI %q: %w", clip(uri, 200), err)
	}
	length = maxPart
	for key, to := range map[string]*int64{"offset": &offset, "length": &length} {
		if !values.Has(key) {
			continue
		}
		n, err := strconv.ParseInt(values.Get(key), 10, 64)
		if err != nil || n < 0 || key == "length" && n == 0 {
			return "", "", 0, 0, fmt.Errorf("%s of %q must be a number of bytes", key, clip(uri, 200))
		}
		*to = n
	}
	return id, name, offset, length, nil
}

// wholeRunes leaves out a character that is cut off at the end, as long as anything stays.
func wholeRunes(b []byte) []byte {
	if n := len(b) - safetext.Half(b); n > 0 {
		return b[:n]
	}
	return b
}
