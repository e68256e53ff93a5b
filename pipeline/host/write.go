package host

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/validate/diff"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// WriteFile writes a file of the host: see files.Access.Write. Its answer is a [Written].
type WriteFile struct {
	Caller
	Path    string
	Content []byte
	Mode    string // files.Create (the default), files.Overwrite or files.Append
}

// Written describes a written file.
type Written struct {
	Path   string
	Size   int64    // of the whole file
	SHA256 string   // likewise; "" if it is too large to read
	Notes  []string // attributes of the replaced file that were lost
	Stored bool     // it is a stored file that runs can use by the result's ID
}

func (q WriteFile) Subject() pipeline.Subject {
	return pipeline.About("host_file_write", q.Namespace, q.Session)
}

func (q WriteFile) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[Written], error) {
	return planFile(ctx, r, q.Caller, q.Path, true, func(ctx context.Context, a files.Access) (Written, error) {
		return writeHost(ctx, r, a, q)
	})
}

// writeHost writes the file, and adds the result to the last row.
func writeHost(ctx context.Context, r *pipeline.Run, a files.Access, q WriteFile) (to Written, err error) {
	switch q.Mode {
	case "":
		q.Mode = files.Create
	case files.Create, files.Overwrite, files.Append:
	default:
		return to, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%.40q is not a mode", q.Mode), "choose create, overwrite or append")
	}
	if err := preservesSecrets(ctx, r, a, q); err != nil {
		return to, err
	}
	done, err := a.Write(ctx, q.Path, q.Content, q.Mode)
	if err != nil {
		return to, err
	}
	now, known := q.Content, true
	if q.Mode == files.Append && done.Had {
		now, err = a.Read(ctx, q.Path) // others may append as well
		known = err == nil
	}
	r.Facts["mode"], r.Facts["size"] = q.Mode, done.Size
	if known {
		to.SHA256 = pipeline.Hash(now)
		r.Facts["sha256"] = to.SHA256
	}
	if done.Had && !done.Large {
		r.Facts["sha256_before"], r.Facts["size_before"] = pipeline.Hash(done.Before), len(done.Before)
	}
	if known && !done.Large {
		noteDiff(r, q.Path, done.Before, now)
	}
	to.Path, to.Size, to.Notes = r.Clean(q.Path), done.Size, done.Notes
	return to, nil
}

// maxCompared bounds a text whose changes are logged, in bytes.
const maxCompared = 1 << 20

// noteDiff adds the changes to the last row. Secrets are removed before the comparison of lines, because one may span
// several.
func noteDiff(r *pipeline.Run, name string, before, now []byte) {
	if len(before) > maxCompared || len(now) > maxCompared || !utf8.Valid(before) || !utf8.Valid(now) {
		return
	}
	if changes := diff.Unified("a"+r.Clean(name), r.Clean(string(before)), "b"+r.Clean(name), r.Clean(string(now))); changes != "" {
		r.Facts["diff"] = pipeline.LongText(changes)
	}
}

// preservesSecrets refuses a text in which a mask stands for a secret of the file: a caller that read the masked file
// would overwrite the secret with the mask.
func preservesSecrets(ctx context.Context, r *pipeline.Run, a files.Access, q WriteFile) error {
	if q.Mode != files.Overwrite || !strings.Contains(string(q.Content), vault.Mark) {
		return nil
	}
	if old, err := a.Read(ctx, q.Path); err != nil || r.Clean(string(old)) == string(old) {
		return nil // the write reports the error
	}
	return pipeline.Refuse(pipeline.StageVault, "the content has "+vault.Mark+" in place of a secret of the file, which would be lost",
		"change the file with a command or by a person; new lines can be appended")
}
