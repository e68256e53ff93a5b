package resource

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

func resource(uri, name, about, mime string, size int64) mcp.Resource {
	r := mcp.NewResource(uri, name, mcp.WithResourceDescription(about), mcp.WithMIMEType(mime))
	r.Size = &size
	return r
}

// errNoResource is the error for a URI without a resource.
var errNoResource = errors.New("no resource")

func contents(uri, mime string, data []byte, text bool, meta map[string]any) []mcp.ResourceContents {
	if text {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: string(data), Meta: meta}}
	}
	return []mcp.ResourceContents{mcp.BlobResourceContents{URI: uri, MIMEType: mime, Blob: base64.StdEncoding.EncodeToString(data),
		Meta: meta}}
}

// Binary reports whether files of a MIME type are always returned as base64, even if a part looks like text: clients
// join the parts, and can't join text with base64.
func Binary(mime string) bool {
	kind, _, _ := strings.Cut(mime, "/")
	return mime == "application/octet-stream" || mime == "application/pdf" || strings.HasSuffix(mime, "zip") ||
		slices.Contains([]string{"image", "audio", "video", "font"}, kind) && !strings.Contains(mime, "xml")
}

// WholeRunes removes a truncated character at the end, unless nothing would remain.
func WholeRunes(b []byte) []byte {
	if n := len(b) - safetext.UnfinishedRune(b); n > 0 {
		return b[:n]
	}
	return b
}
