package resource

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

const (
	// maxPart is the default size of one read, in bytes. Larger resources must be read in parts: a model could not
	// take the whole anyway.
	maxPart = 1 << 20
	// codeNoResource is for unknown resources, in protocols before 2026-07-28.
	codeNoResource = -32002
)

func (s *Catalog) listTemplates(m *rpc.Message) (mcp.ResultMetadata, *rpc.Fault) {
	if bad := m.RefusePage(); bad != nil {
		return nil, bad
	}
	list := &mcp.ListResourceTemplatesResult{}
	for _, r := range []struct{ template, name, about, mime string }{
		{answer.RunScheme + "{id}/files/{+name}{?offset,length}", "artifact", "A file in a run's working directory. ", ""},
		{answer.RunScheme + "{id}/" + answer.ChangesName + "{?offset,length}", answer.ChangesName,
			"The changes of a run or session to a workspace, as a patch. ", "text/x-diff"},
		{answer.RunScheme + "{id}/stderr{?offset,length}", "stderr", "Standard error of a run. ", "text/plain"},
		{answer.RunScheme + "{id}/stdout{?offset,length}", "stdout", "Standard output of a run. ", "text/plain"},
	} {
		list.ResourceTemplates = append(list.ResourceTemplates, mcp.NewResourceTemplate(r.template, r.name, mcp.WithTemplateMIMEType(r.mime),
			mcp.WithTemplateDescription(r.about+"offset and length select bytes; _meta has offset, length and the total size.")))
	}
	return list, nil
}

func (s *Catalog) readResource(m *rpc.Message) (mcp.ResultMetadata, *rpc.Fault) {
	var p struct {
		URI string `json:"uri"`
	}
	if bad := m.ReadParams(&p); bad != nil {
		return nil, bad
	}
	all, err := s.readPart(p.URI)
	switch {
	case err == nil:
		return &mcp.ReadResourceResult{Contents: all}, nil
	case !m.Modern && (errors.Is(err, results.ErrUnknown) || errors.Is(err, changes.ErrUnknown) || errors.Is(err, errNoResource)):
		return nil, m.Refuse(codeNoResource, err.Error())
	}
	return nil, m.Refuse(mcp.INVALID_PARAMS, err.Error())
}

// readPart returns the part of a run's entry that a URI names.
func (s *Catalog) readPart(uri string) ([]mcp.ResourceContents, error) {
	if strings.HasPrefix(uri, skillScheme) {
		return s.readSkill(uri)
	}
	id, name, offset, length, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	p, err := s.storedPart(s.Namespace, id, name, offset, length)
	if err != nil {
		return nil, err
	}
	data := WholeRunes(p.Data)
	text := !Binary(p.MIME) && utf8.Valid(data)
	if !text {
		data = p.Data
	}
	meta := map[string]any{"offset": offset, "length": len(data), "total": p.Size}
	if next := offset + int64(len(data)); next < p.Size {
		meta["nextOffset"] = next
	}
	return contents(uri, p.MIME, data, text, meta), nil
}

// storedPart reads from the result store. namespace "" may read all.
func (s *Catalog) storedPart(namespace, id, name string, offset, length int64) (results.Part, error) {
	if name == answer.ChangesName {
		text, err := s.Changes(namespace, id)
		size := int64(len(text))
		from := min(offset, size)
		return results.Part{Data: []byte(text[from : from+min(length, size-from)]), Size: size, MIME: "text/x-diff"}, err
	}
	if s.Results == nil {
		return results.Part{}, fmt.Errorf("this server stores no output or artifacts: %w", results.ErrUnknown)
	}
	if namespace != "" {
		r, err := s.Results.Get(id)
		if err == nil && r.Namespace != namespace {
			err = fmt.Errorf("run %s: %w", safetext.Clip(id, 40), results.ErrUnknown)
		}
		if err != nil {
			return results.Part{}, err
		}
	}
	return s.Results.Read(id, name, offset, length)
}

// parseURI parses sandbox://runs/ID/NAME?offset=N&length=N.
func parseURI(uri string) (id, name string, offset, length int64, err error) {
	rest, ok := strings.CutPrefix(uri, answer.RunScheme)
	path, query, _ := strings.Cut(rest, "?")
	id, name, found := strings.Cut(path, "/")
	if !ok || !found {
		return "", "", 0, 0, fmt.Errorf("%q is %w: use a URI like %s", safetext.Clip(uri, 200), errNoResource, answer.RunURI("ID", "stdout"))
	}
	values, err := url.ParseQuery(query)
	if err == nil {
		name, err = url.PathUnescape(name)
	}
	if err != nil {
		return "", "", 0, 0, fmt.Errorf("read the URI %q: %w", safetext.Clip(uri, 200), err)
	}
	length = maxPart
	for key, to := range map[string]*int64{"offset": &offset, "length": &length} {
		if !values.Has(key) {
			continue
		}
		n, err := strconv.ParseInt(values.Get(key), 10, 64)
		if err != nil || n < 0 || key == "length" && n == 0 {
			return "", "", 0, 0, fmt.Errorf("%s of %q must be a number of bytes", key, safetext.Clip(uri, 200))
		}
		*to = n
	}
	return id, name, offset, length, nil
}
