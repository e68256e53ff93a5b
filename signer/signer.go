// Package signer lists the files that a run left, with their SHA-256, saves them, signs a receipt of
// the run, and verifies all of that, offline.
//
// Each file is read once: hash, type, search for secrets and copy are all of the same bytes, so
// a file that changes meanwhile cannot be listed as one thing and saved as another. Only an input
// that may be unchanged is hashed once more, ahead, in order not to copy it for nothing.
//
// MIME types come from gabriel-vasile/mimetype, by content alone: net/http knows no Office file,
// Parquet or JSON, and extensions are looked up in tables of the host, so that the same artifact
// would have another type elsewhere, or one that the program chose by naming it.
//
// Receipts are DSSE envelopes, with the types and the encoding to sign of secure-systems-lab's own
// library, so that there is one reading of that specification and not ours. Its verifier is used by
// tests alone: it says that something fails, and not what. How a key is written for readers of signed notes
// is golang.org/x/mod/sumdb/note's to say, which defines them.
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
// It returns how many things that are no regular files it passed over. One goroutine calls f.
type Source func(ctx context.Context, f func(File) error) (skipped int, err error)

// File is a file of a Source.
type File struct {
	Name string // relative, slashes
	Size int64  // bytes, when it was listed
	Mode uint32 // permission bits
	// Open must not block, nor follow what was put in the file's place since; nor may reading
	// block. An error means that the file is passed over.
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
	// EmptyDir says that nothing is in the directory yet: Dir is called when there is an artifact, and not before.
	EmptyDir bool
	// ID is of letters and digits, and in the names that files have in the directory until they are saved; "" is a new
	// one.
	ID string
	// MaxCount and MaxBytes cap the artifacts, all together; 0 is the default. They bound memory
	// and time: reading ends at MaxBytes, and no more than MaxBytes again of inputs is compared.
	MaxCount int
	MaxBytes int64
	// ContainsSecret says whether there is a secret in what r reads. Such an artifact is withheld, and so
	// is one for which Secret fails. nil finds none.
	ContainsSecret func(r io.Reader) (bool, error)
	// Unchanged maps inputs' names to their SHA-256 in lower-case hex. A file that still has that hash is no artifact.
	Unchanged map[string]string
	// Redact takes secrets out of a text. An artifact whose name it changes is withheld, and
	// listed under the redacted name: two names may redact to the same, and whoever gets the file
	// under a name of ours would look for it under its own. nil changes nothing.
	Redact func(string) string
}

// Manifest lists the artifacts that Collect found.
type Manifest struct {
	Artifacts []Artifact `json:"artifacts"`                   // by name, byte by byte
	Skipped   int        `json:"artifacts_skipped,omitempty"` // no regular files, or unreadable ones
	Dropped   int        `json:"artifacts_dropped,omitempty"` // over a cap
	Why       string     `json:"artifacts_why,omitempty"`     // "over the cap of 1000 files: 3; ..."
}

// Collect is Stage, with what it staged saved.
func Collect(ctx context.Context, src Source, o Options) (Manifest, error) {
	m, staged, err := Stage(ctx, src, o)
	return m, cmp.Or(err, staged.Save(nil))
}

// Stage lists the files of src and, with o.Dir, puts those that are not withheld into that directory, under names that
// begin with ".sandboxmcp-" and o.ID, until Save or Discard is called, which one of must be, also after an error.
//
// A saved file appears whole or not at all, in place of any other file of its name. It has the permission bits that it
// had, but is readable and writable for its owner, never writable for others, never setuid, setgid or sticky; the umask
// takes away more. New directories are 0755 less the umask. SHA256SUMS is saved last, and lists just the files saved
// now; without it (none were saved, or Stage failed) no list of an earlier run is left either, nor is its receipt.
// Files are not synced to disk.
//
// A name that can't be saved (it leaves Dir, a link or a directory is in its place, it is SHA256SUMS or
// receipt.intoto.json) withholds the artifact. An error means that the listing failed, that ctx ended, or that Dir, or
// the temporary directory, can't be written to; the Manifest then has what came before it.
//
// A kill in the middle leaves the files with those names: see [hostfs.RemoveStaged]. On a
// file system that ignores case, the later one of two names that differ in case alone remains.
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

// Staged are files in the directory of Options.Dir that have not got their names yet. nil has none.
type Staged struct{ dir *directory }

// Save gives the files their names, behind the receipt of the run, where that is not nil: so there is no moment at
// which one is there that nothing signed vouches for. What can't be saved is removed.
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
