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

// errNoResource is about a URI that no run's resource can have.
var errNoResource = errors.New("no resource")

func contents(uri, mime string, data []byte, text bool, meta map[string]any) []mcp.ResourceContents {
	if text {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: string(data), Meta: meta}}
	}
	return []mcp.ResourceContents{mcp.BlobResourceContents{URI: uri, MIMEType: mime, Blob: base64.StdEncoding.EncodeToString(data), Meta: meta}}
}

// Binary reports whether no part of such a file is text, also one that looks like it: clients put the
// parts together, and can't if some are text and some are not.
func Binary(mime string) bool {
	kind, _, _ := strings.Cut(mime, "/")
	return mime == "application/octet-stream" || mime == "application/pdf" || strings.HasSuffix(mime, "zip") ||
		slices.Contains([]string{"image", "audio", "video", "font"}, kind) && !strings.Contains(mime, "xml")
}

// WholeRunes leaves out a character that is cut off at the end, as long as anything stays.
func WholeRunes(b []byte) []byte {
	if n := len(b) - safetext.Half(b); n > 0 {
		return b[:n]
	}
	return b
}
