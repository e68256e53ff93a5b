package changes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/trap"
)

// Longer names are refused: the kernel accepts none, and the comparison opens each directory of a name.
const (
	maxName  = 4095
	maxWords = 2048
	maxWord  = 255
)

// stagePrefix begins the name of each stage, the directory in which an apply prepares files.
const stagePrefix = ".sandboxmcp-apply-"

// comparison makes entries of the paths that a program changed, and stores the contents that differ.
type comparison struct {
	ctx     context.Context
	p       Proposal
	host    *tree
	content *pack
	entries map[string]*Entry
	held    judge
	applied map[string]State // by path: states that earlier sets of the same session left on the host
}

// add compares one path of the program's view with the host's path.
func (c *comparison) add(change backends.Change) error {
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	name := change.Name
	if name == "." || name == "" || strings.HasPrefix(name, stagePrefix) {
		return nil
	}
	e := &Entry{Path: name}
	if why := badName(name); why != "" {
		e.Refused = why
		c.entries[name] = e
		return nil
	}
	if c.p.Redact != nil {
		if clean := c.p.Redact(name); clean != name {
			e.Path, e.Refused = clean, "a secret is in its name"
			c.entries[name] = e
			return nil
		}
	}
	end := c.content.end
	if !change.Removed {
		if err := c.after(e, change); err != nil {
			return fmt.Errorf("read %s of the workspace: %w", quoteName(name), err)
		}
	}
	if err := c.before(e); err != nil {
		return err
	}
	if e.Refused == "" && same(e.Before, e.After) {
		delete(c.entries, name)
		return c.content.truncate(end)
	}
	c.entries[name] = e
	if e.Before.Kind == Directory && e.After.Kind != Directory {
		return c.expand(name)
	}
	return nil
}

func badName(name string) string {
	words := strings.Split(name, "/")
	switch {
	case len(name) > maxName || len(words) > maxWords || slices.ContainsFunc(words, func(w string) bool { return len(w) > maxWord }):
		return "its name is too long"
	case strings.ContainsRune(name, 0), path.Clean(name) != name, !filepath.IsLocal(filepath.FromSlash(name)):
		return "its name is not one of a file below the directory"
	}
	return ""
}

// after fills in the state after the program.
func (c *comparison) after(e *Entry, change backends.Change) error {
	e.After = State{Kind: kindOf(change.Mode)}
	if change.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
		e.note("its set-user-ID, set-group-ID and sticky bits are not applied")
	}
	switch e.After.Kind {
	case Other:
		e.Refused = "it is a device, a socket or a FIFO"
	case Directory:
		e.After.Mode = uint32(change.Mode.Perm())
	case Link:
		e.After.Target, e.Modified = change.Target, change.ModTime
		e.Refused = c.badTarget(e)
	case File:
		e.After.Mode, e.Modified = uint32(change.Mode.Perm()), change.ModTime
		return c.read(e, change)
	}
	return nil
}

// badTarget returns why a link is refused: it must lead to something in the directory.
func (c *comparison) badTarget(e *Entry) string {
	target := e.After.Target
	if c.p.Redact != nil && c.p.Redact(target) != target {
		e.After.Target = c.p.Redact(target)
		return "a secret is in its target"
	}
	if target == "" || filepath.IsAbs(target) || strings.HasPrefix(target, "/") {
		return "it is an absolute link"
	}
	if leaves(e.Path, target) {
		return "it is a link that may lead out of the directory"
	}
	return ""
}

// leaves reports whether a link may lead out of the tree. After another name, ".." counts as leading out: that name may
// be a link to anywhere.
func leaves(name, target string) bool {
	up, down := 0, false
	for word := range strings.SplitSeq(filepath.ToSlash(target), "/") {
		switch {
		case word == "" || word == ".":
		case word != "..":
			down = true
		case down:
			return true
		default:
			up++
		}
	}
	return up > strings.Count(name, "/")
}

// read stores the content of a changed file, unless the file contains a secret.
func (c *comparison) read(e *Entry, change backends.Change) error {
	tooLarge := fmt.Sprintf("the contents of a change set may have %d bytes, and with it there are more", c.content.max)
	if e.After.Size = change.Size; change.Size > c.content.room() { // before any read: a sparse file of a terabyte takes no disk
		e.Refused = tooLarge
		return nil
	}
	r, err := change.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := c.content.writer()
	if err != nil {
		return err
	}
	sum, stored := sha256.New(), &failing{w: w}
	from := io.TeeReader(io.LimitReader(reader{c.ctx, r}, c.content.room()+1), io.MultiWriter(sum, stored))
	found := false
	if c.p.Secret != nil {
		found, err = c.p.Secret(from)
	}
	if err == nil {
		_, err = io.Copy(struct{ io.Writer }{io.Discard}, from)
	}
	if err != nil {
		return err
	}
	if errors.Is(stored.err, errTooLarge) { // the file grows while it is read
		e.Refused = tooLarge
		return c.content.truncate(c.content.end)
	}
	e.After.Size, e.After.SHA256 = stored.size, hex.EncodeToString(sum.Sum(nil))
	switch {
	case found:
		e.Refused = "a leased secret is in it"
	case stored.err != nil:
		return stored.err
	default:
		return w.commit(e.After.SHA256)
	}
	return c.content.truncate(c.content.end)
}

// failing counts the bytes written to it and accepts more after w fails, so that hashes cover the whole file.
type failing struct {
	w    io.Writer
	size int64
	err  error
}

func (f *failing) Write(b []byte) (int, error) {
	f.size += int64(len(b))
	if f.err == nil {
		_, f.err = f.w.Write(b)
	}
	return len(b), nil
}

// before fills in the state on the host.
func (c *comparison) before(e *Entry) error {
	w, err := c.content.writer()
	if err != nil {
		return err
	}
	stored := &failing{w: w}
	var info fs.FileInfo
	if e.Before, info, err = c.host.state(c.ctx, e.Path, stored); err != nil {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		e.Refused = cmp.Or(e.Refused, fmt.Sprintf("the host's can't be read: %v", bare(err)))
		return nil
	}
	if info == nil {
		return nil
	}
	e.Stale = e.Before.Kind != Directory && !changeTime(info).Before(c.p.Began) && e.Before != c.applied[e.Path]
	if e.Before.Kind == Other {
		e.Refused = cmp.Or(e.Refused, "the host has a device, a socket or a FIFO there")
	}
	if e.Before.Kind != File {
		return nil
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 && e.Before.SHA256 != e.After.SHA256 {
		e.note("its set-user-ID and set-group-ID bits are lost")
	}
	if errors.Is(stored.err, errTooLarge) {
		e.Irrecoverable = true
		return c.content.truncate(c.content.end)
	}
	if stored.err != nil {
		return stored.err
	}
	return w.commit(e.Before.SHA256)
}

// expand makes an entry of each path that the host has in a directory which the program removed or replaced.
func (c *comparison) expand(dir string) error {
	names, err := c.host.names(dir)
	if err != nil {
		return fmt.Errorf("list %s, which is removed: %w", quoteName(dir), bare(err))
	}
	for _, n := range names {
		e := &Entry{Path: dir + "/" + n}
		if err := c.before(e); err != nil {
			return err
		}
		c.entries[e.Path] = e
		if e.Before.Kind == Directory {
			if err := c.expand(e.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish returns the entries in their order, with their warnings, line counts and renames.
func (c *comparison) finish() []Entry {
	entries := make([]Entry, 0, len(c.entries))
	for _, e := range c.entries {
		c.describe(e)
		entries = append(entries, *e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return comparePaths(a.Path, b.Path) })
	findRenames(entries)
	return entries
}

// comparePaths orders a directory before its content, and its content before the next path beside the directory.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// describe fills in the fields of an entry that depend on both states.
func (c *comparison) describe(e *Entry) {
	if e.Refused == "" {
		e.Held = c.held.path(e.Path).why
		if e.Held == "" && trap.Fold(path.Base(e.Path)) == ".git" && e.After.Kind != Directory && e.After.Kind != "" {
			e.Held = "git obeys it on the host"
		}
		if e.Held == "" && c.inBareRepository(e.Path) {
			e.Held = "git takes its directory for a repository, and obeys what is in it"
		}
	}
	if e.After.Kind == File && e.After.Mode&0o111 != 0 && e.Before.Kind == File && e.Before.Mode&0o111 == 0 {
		e.note("it is executable now")
	}
	if e.Before.Kind != File && e.After.Kind != File || e.Before.SHA256 == e.After.SHA256 {
		return
	}
	old, okOld := c.content.read(e.Before, maxText)
	now, okNow := c.content.read(e.After, maxText)
	if e.Binary = !okOld || !okNow || isBinary(old) || isBinary(now); !e.Binary {
		e.Added, e.Removed = countLines(old, now)
		if up := c.entries[dirOf(e.Path)]; e.Before.Kind != "" || up == nil || up.Before.Kind != "" { // in a new directory, all is new
			e.note(marksOf(e.Path, old, now))
		}
	}
}

// inBareRepository reports whether a path is one of those by which git recognises a repository, whatever the
// directory's name: git obeys the config of any repository that it is called in.
func (c *comparison) inBareRepository(name string) bool {
	dir, base := path.Split(name)
	if !slices.Contains([]string{"head", "config", "objects", "refs", "commondir"}, trap.Fold(base)) || c.held.path(name).inGit {
		return false
	}
	return c.has(dir+"HEAD") && (c.has(dir+"objects") || c.has(dir+"commondir"))
}

// has reports whether a path exists once the whole set is applied.
func (c *comparison) has(name string) bool {
	if e := c.entries[name]; e != nil {
		return e.After.Kind != ""
	}
	parent, base, err := c.host.parent(name)
	if err == nil {
		_, err = parent.Lstat(base)
	}
	return err == nil
}

func (e *Entry) note(text string) {
	if text != "" {
		e.Mark = strings.TrimPrefix(e.Mark+"; "+text, "; ")
	}
}

// findRenames pairs added files with removed files of the same content, preferring one of the same base name.
func findRenames(entries []Entry) {
	removed := map[string][]int{}
	for i, e := range entries {
		if e.Before.Kind == File && e.After.Kind == "" && e.Before.Size > 0 && e.Refused == "" {
			removed[e.Before.SHA256] = append(removed[e.Before.SHA256], i)
		}
	}
	for i := range entries {
		e := &entries[i]
		from := removed[e.After.SHA256]
		if e.Before.Kind != "" || e.After.Kind != File || e.Refused != "" || len(from) == 0 {
			continue
		}
		at := max(0, slices.IndexFunc(from, func(r int) bool { return path.Base(entries[r].Path) == path.Base(e.Path) }))
		e.RenamedFrom = entries[from[at]].Path
		removed[e.After.SHA256] = slices.Delete(from, at, at+1)
	}
}

// bare removes the path from an error, since the message already contains the path.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
