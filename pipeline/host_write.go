package pipeline

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/validate/diff"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// HostWrite writes a file of the host: see files.Access.Write. It comes to a [HostWritten].
type HostWrite struct {
	HostCaller
	Path    string
	Content []byte
	Mode    string // files.Create, which "" is, files.Overwrite or files.Append
}

// HostWritten is a file that was written.
type HostWritten struct {
	Path   string
	Size   int64    // of all of it
	SHA256 string   // likewise; "" where it is too large to be read
	Notes  []string // what of the file that was replaced was not kept
	Stored bool     // it is no file of the host, but one that runs can take by the result's ID
}

func (q HostWrite) subject() subject { return about("host_file_write", q.Namespace, q.Session) }

func (q HostWrite) plan(ctx context.Context, r *run) (action[HostWritten], error) {
	return planFile(ctx, r, q.HostCaller, q.Path, true, func(ctx context.Context, a files.Access) (HostWritten, error) { return r.writeHost(ctx, a, q) })
}

// writeHost writes, and has the last row say what became of the file.
func (r *run) writeHost(ctx context.Context, a files.Access, q HostWrite) (to HostWritten, err error) {
	switch q.Mode {
	case "":
		q.Mode = files.Create
	case files.Create, files.Overwrite, files.Append:
	default:
		return to, refuse(StageValidate, fmt.Sprintf("%.40q is no mode", q.Mode), "choose create, overwrite or append")
	}
	if err := r.preservesSecrets(ctx, a, q); err != nil {
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
	r.facts["mode"], r.facts["size"] = q.Mode, done.Size
	if known {
		to.SHA256 = hash(now)
		r.facts["sha256"] = to.SHA256
	}
	if done.Had && !done.Large {
		r.facts["sha256_before"], r.facts["size_before"] = hash(done.Before), len(done.Before)
	}
	if known && !done.Large {
		r.noteDiff(q.Path, done.Before, now)
	}
	to.Path, to.Size, to.Notes = r.clean(q.Path), done.Size, done.Notes
	return to, nil
}

// maxCompared is the longest text whose changes are in the log, in bytes.
const maxCompared = 1 << 20

// noteDiff puts what changed into the last row. Secrets go before the lines are compared: one may have several.
func (r *run) noteDiff(name string, before, now []byte) {
	if len(before) > maxCompared || len(now) > maxCompared || !utf8.Valid(before) || !utf8.Valid(now) {
		return
	}
	if changes := diff.Unified("a"+r.clean(name), r.clean(string(before)), "b"+r.clean(name), r.clean(string(now))); changes != "" {
		r.facts["diff"] = long(changes)
	}
}

// preservesSecrets refuses a text in which a mask stands for a secret of the file: who has read it so would put the mask in
// the secret's place.
func (r *run) preservesSecrets(ctx context.Context, a files.Access, q HostWrite) error {
	if q.Mode != files.Overwrite || !strings.Contains(string(q.Content), vault.Mark) {
		return nil
	}
	old, err := a.Read(ctx, q.Path)
	if err != nil || r.clean(string(old)) == string(old) {
		return nil // what is wrong with it is said when it is written
	}
	return refuse(StageVault, "the content has "+vault.Mark+" where the file has a secret, which would be lost",
		"change the file with a command or by a person; new lines can be appended")
}
