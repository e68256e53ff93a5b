package signer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// headSize is the number of bytes that mimetype reads of a file.
const headSize = 3072

var errTooLarge = errors.New("larger than the cap")

// scan reads a file once, and counts and hashes its bytes.
type scan struct {
	r         io.Reader
	bytesLeft int64 // bytes that may still be read
	size      int64
	hash      hash.Hash
	head      []byte
	err       error // why reading ended early
}

func newScan(ctx context.Context, r io.Reader, left int64) *scan {
	return &scan{r: readerWithContext(ctx, r), bytesLeft: left, hash: sha256.New()}
}

func (s *scan) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if int64(len(p)) > s.bytesLeft {
		p = p[:s.bytesLeft+1] // one more byte, to detect a file larger than the cap
	}
	n, err := s.r.Read(p)
	if int64(n) > s.bytesLeft {
		// Count the bytes read: otherwise each of many growing files could use the whole cap.
		s.bytesLeft, s.err = 0, errTooLarge
		return 0, s.err
	}
	s.bytesLeft -= int64(n)
	s.size += int64(n)
	s.hash.Write(p[:n])
	s.head = append(s.head, p[:min(n, headSize-len(s.head))]...)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// sum returns the hash of the bytes that were read, in lower-case hex.
func (s *scan) sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// readerWithContext returns a reader of r that fails once ctx ends.
func readerWithContext(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}
