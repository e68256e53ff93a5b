package operation

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Media types of content.
const (
	Tar    = "application/x-tar"
	Binary = "application/octet-stream"
)

// IsTar reports whether the headers declare a tar.
func IsTar(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == Tar
}

// Hashed is content that calls End with its SHA-256 at its end. An error of End replaces the end.
type Hashed struct {
	io.Reader
	End func(sum []byte) error
	sum hash.Hash
}

// Read implements [io.Reader].
func (h *Hashed) Read(b []byte) (int, error) {
	if h.sum == nil {
		h.sum = sha256.New()
	}
	n, err := h.Reader.Read(b)
	h.sum.Write(b[:n])
	if err == io.EOF {
		if wrong := h.End(h.sum.Sum(nil)); wrong != nil {
			err = wrong
		}
	}
	return n, err
}

// digestName is the header, or the trailer, with the hash of content (RFC 9530).
const digestName = "Content-Digest"

// SendContent streams content, followed by its SHA-256. If content fails, the answer is cut off, so that clients
// notice that it is incomplete.
func SendContent(w http.ResponseWriter, kind string, content io.Reader) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Trailer", digestName)
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), content); err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(digestName, digestOf(sum.Sum(nil)))
}

func digestOf(sum []byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}

// Digest returns the SHA-256 in hex of a header or trailer, "" without one. It returns false if the value is
// malformed.
func Digest(h http.Header) (sum string, ok bool) {
	digest := h.Get(digestName)
	if digest == "" {
		return "", true
	}
	for part := range strings.SplitSeq(digest, ",") {
		text, is := strings.CutPrefix(strings.TrimSpace(part), "sha-256=:")
		if b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(text, ":")); is && err == nil && len(b) == sha256.Size {
			return hex.EncodeToString(b), true
		}
	}
	return "", false
}

// SentDigest returns a function for the SHA-256 that a request declares for its content, in its header or, after
// reading the content, in its trailer: "" without one. It returns false for a malformed header; a malformed trailer
// gives a hash that no content has.
func SentDigest(r *http.Request) (sum func() string, ok bool) {
	first, ok := Digest(r.Header)
	return func() string {
		if first != "" {
			return first
		}
		last, readable := Digest(r.Trailer)
		if !readable {
			return "no hash"
		}
		return last
	}, ok
}
