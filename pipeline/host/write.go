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

// WriteFile writes a file of the host: see files.Access.Write. It comes to a [Written].
type WriteFile struct {
	Caller
	Path    string
	Content []byte
	Mode    string // files.Create, which "" is, files.Overwrite or files.Append
}

// Written is a file that was written.
type Written struct {
	Path   string
	Size   int64    // of all of it
	SHA256 string   // likewise; "" where it is too large to be read
	Notes  []string // what of the file that was replaced was not kept
	Stored bool     // it is no file of the host, but one that runs can take by the result's ID
}

func (q WriteFile) Subject() pipeline.Subject {
	return pipeline.About("host_file_write", q.Namespace, q.Session)
}

func (q WriteFile) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[Written], error) {
	return planFile(ctx, r, q.Caller, q.Path, true, func(ctx context.Context, a files.Access) (Written, error) { return writeHost(ctx, r, a, q) })
}

// writeHost writes, and has the last row say what became of the file.
func writeHost(ctx context.Context, r *pipeline.Run, a files.Access, q WriteFile) (to Written, err error) {
	switch q.Mode {
	case "":
		q.Mode = files.Create
	case files.Create, files.Overwrite, files.Append:
	default:
		return to, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%.40q is no mode", q.Mode), "choose create, overwrite or append")
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
		now, err = a.Read(ctx, q.Path) // others may append, too
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

// maxCompared is the longest text whose changes are in the log, in bytes.
const maxCompared = 1 << 20

// noteDiff puts what changed into the last row. Secrets go before the lines are compared: one may have several.
func noteDiff(r *pipeline.Run, name string, before, now []byte) {
	if len(before) > maxCompared || len(now) > maxCompared || !utf8.Valid(before) || !utf8.Valid(now) {
		return
	}
	if changes := diff.Unified("a"+r.Clean(name), r.Clean(string(before)), "b"+r.Clean(name), r.Clean(string(now))); changes != "" {
		r.Facts["diff"] = pipeline.LongText(changes)
	}
}

// preservesSecrets refuses a text in which a mask stands for a secret of the file: who has read it so would put the
// mask in the secret's place.
func preservesSecrets(ctx context.Context, r *pipeline.Run, a files.Access, q WriteFile) error {
	if q.Mode != files.Overwrite || !strings.Contains(string(q.Content), vault.Mark) {
		return nil
	}
	if old, err := a.Read(ctx, q.Path); err != nil || r.Clean(string(old)) == string(old) {
		return nil // what is wrong with it is said when it is written
	}
	return pipeline.Refuse(pipeline.StageVault, "the content has "+vault.Mark+" where the file has a secret, which would be lost",
		"change the file with a command or by a person; new lines can be appended")
}
