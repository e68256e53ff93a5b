// Package signer lists the files that a run left, with their SHA-256, saves them, signs a receipt of
// the run, and verifies all of that, offline.
//
// Each file is read once: hash, type, search for secrets and copy use the same bytes, even if the file changes
// meanwhile. Only an input that may be unchanged is hashed before, to avoid a needless copy.
//
// MIME types come from gabriel-vasile/mimetype, by content alone: net/http does not detect Office files, Parquet or
// JSON, and types by extension depend on the host's tables and on the name that the program chose.
//
// Receipts are DSSE envelopes, with the types and the encoding to sign of secure-systems-lab's own library, rather than
// our own implementation. Its verifier is used only by tests, since its errors don't name the cause.
// golang.org/x/mod/sumdb/note, which defines signed notes, encodes verifier keys.
package signer

import (
	"cmp"
	"context"
	"io"
	"os"
)

// Artifact is a file that a run left.
type Artifact struct {
	Name   string `json:"name"` // relative, slashes; any bytes but NUL; secrets redacted
	Size   int64  `json:"size"` // bytes that were hashed
	SHA256 string `json:"sha256" redact:"-"`
	MIME   string `json:"mime"`
	// Withheld says why the artifact is withheld; "" if it is not.
	Withheld string `json:"withheld,omitempty"`
}

// Source calls f for each regular file, until f returns an error, which it then returns too.
// It returns the number of skipped entries that are not regular files. It does not call f concurrently.
type Source func(ctx context.Context, f func(File) error) (skipped int, err error)

// File is a file of a Source.
type File struct {
	Name string // relative, slashes
	Size int64  // bytes, when it was listed
	Mode uint32 // permission bits
	// Open must not block, nor follow a link that replaced the file; reading must not block either. After an error, the
	// file is skipped.
	Open func() (io.ReadCloser, error)
}

// Caps of a zero Options.
const (
	DefaultMaxCount = 1000
	DefaultMaxBytes = 512 << 20 // the default disk limit: a run may leave one file that fills it
)

// Options configure Collect.
type Options struct {
	// Dir opens the directory to save to, which its caller closes after Collect; nil saves nothing. Links below it are
	// never followed.
	Dir func() (*os.Root, error)
	// EmptyDir says that the directory is empty: then Dir is called only for the first artifact.
	EmptyDir bool
	// ID is part of the temporary names, of letters and digits; "" is a random one.
	ID string
	// MaxCount and MaxBytes cap the artifacts, all together; 0 is the default. They bound memory
	// and time: at most MaxBytes of artifacts are read, and at most MaxBytes of inputs compared.
	MaxCount int
	MaxBytes int64
	// ContainsSecret reports whether the content of r has a secret. Such an artifact is withheld, also after an error. nil
	// finds none.
	ContainsSecret func(r io.Reader) (bool, error)
	// Unchanged maps inputs' names to their SHA-256 in lower-case hex. A file that still has that hash is no artifact.
	Unchanged map[string]string
	// Redact removes secrets from a text. An artifact whose name it changes is withheld, and listed under the redacted
	// name, since two names may redact to the same. nil changes nothing.
	Redact func(string) string
}

// Manifest lists the artifacts that Collect found.
type Manifest struct {
	Artifacts []Artifact `json:"artifacts"`                   // by name, byte by byte
	Skipped   int        `json:"artifacts_skipped,omitempty"` // unreadable or not regular files
	Dropped   int        `json:"artifacts_dropped,omitempty"` // over a cap
	Why       string     `json:"artifacts_why,omitempty"`     // "over the cap of 1000 files: 3; ..."
}

// Collect is Stage followed by Save.
func Collect(ctx context.Context, src Source, o Options) (Manifest, error) {
	m, staged, err := Stage(ctx, src, o)
	return m, cmp.Or(err, staged.Save(nil))
}

// Stage lists the files of src and, with o.Dir, puts those that are not withheld into that directory, under names that
// begin with ".sandboxmcp-" and o.ID, until Save or Discard. The caller must call one of them, also after an error.
//
// A saved file replaces any other of its name atomically. It keeps its permission bits, but is readable and writable
// for its owner, never writable for others, never setuid, setgid or sticky; the umask applies. New directories are 0755
// less the umask. SHA256SUMS is saved last, and lists exactly these files; the list and the receipt of an earlier run
// are always removed. Files are not synced to disk.
//
// A name that can't be saved (it leaves Dir, a link or a directory is in its place, it is SHA256SUMS or
// receipt.intoto.json) withholds the artifact. An error means that the listing failed, that ctx ended, or that Dir, or
// the temporary directory, can't be written to; the Manifest then has the files before it.
//
// A kill in the middle leaves the files with those names: see [hostfs.RemoveStaged]. On a
// file system that ignores case, the later of two names that differ only in case remains.
func Stage(ctx context.Context, src Source, o Options) (Manifest, *Staged, error) {
	c, err := newCollector(o)
	if err != nil {
		return Manifest{}, nil, err
	}
	defer c.close()
	skipped, err := src(ctx, func(f File) error { return c.addFile(ctx, f) })
	if err == nil {
		err = ctx.Err()
	}
	m := c.manifest(skipped)
	if err == nil && c.dir != nil {
		err = c.dir.stageSums(m)
	}
	return m, &Staged{c.dir}, err
}

// Staged are files in the directory of Options.Dir under temporary names. nil has none.
type Staged struct{ dir *directory }

// Save saves the receipt, if it is not nil, and then the files, so that no file exists without a signature. It removes
// files that can't be saved.
func (s *Staged) Save(receipt *Envelope) error {
	if s == nil || s.dir == nil {
		return nil
	}
	defer s.Discard()
	err := s.dir.removeOldLists()
	if err == nil && receipt != nil {
		err = s.dir.stageReceipt(*receipt)
	}
	return cmp.Or(err, s.dir.save())
}

// Discard removes the files that were not saved.
func (s *Staged) Discard() {
	if s != nil && s.dir != nil {
		s.dir.discard()
	}
}
