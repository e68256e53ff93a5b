package changes

import (
	"bufio"
	"compress/zlib"
	"context"
	"crypto/sha1" // git names contents by SHA-1
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/diff"
)

// collapsed is the size of the largest group whose paths a diff of a whole set lists one by one.
const collapsed = 200

// Diff writes the changes of a set below some paths, or all of them, in git's format. It leaves out refused paths, and
// directories, which git does not track. If no paths are given, a large group is one line. Names and contents come from
// the program: before a person or a model sees them, the caller redacts them and escapes their invisible characters.
func (s *Store) Diff(w io.Writer, set Set, paths []string) error {
	return s.patch(w, set, paths, false)
}

// Export is Diff with all contents, including those of binary files, for "git apply".
func (s *Store) Export(w io.Writer, set Set, paths []string) error {
	return s.patch(w, set, paths, true)
}

func (s *Store) patch(to io.Writer, set Set, paths []string, contents bool) error {
	if set.Status == StatusDropped {
		return fmt.Errorf("the change set %s was dropped, and its content is gone", set.ID)
	}
	if len(set.Entries) == 0 {
		full, err := s.Get(set.ID)
		if err != nil {
			return err
		}
		set = full
	}
	content, err := openPack(filepath.Join(s.path(set.ID), contentName), 1<<62)
	if err != nil {
		return err
	}
	defer content.Close()
	out := bufio.NewWriter(to)
	p := patch{out, content, contents}
	chosen := map[string]Entry{}
	for _, e := range set.Entries {
		if e.Refused == "" && (len(paths) == 0 || slices.ContainsFunc(paths, func(n string) bool { return covers(n, e.Path) })) {
			chosen[e.Path] = e
		}
	}
	renamed := map[string]bool{}
	for _, e := range chosen {
		if _, has := chosen[e.RenamedFrom]; has {
			renamed[e.RenamedFrom] = true
		}
	}
	if len(paths) == 0 && !contents {
		for _, g := range set.Groups(collapsed) {
			if len(g.Entries) > 1 {
				fmt.Fprintf(out, "%s\n", quoteName(g.String()))
				for _, e := range g.Entries {
					delete(chosen, e.Path)
				}
			}
		}
	}
	for _, e := range set.Entries {
		if _, has := chosen[e.Path]; !has || renamed[e.Path] {
			continue
		}
		if err := p.entry(e, chosen[e.RenamedFrom]); err != nil {
			return fmt.Errorf("write the patch of %s: %w", quoteName(e.Path), err)
		}
	}
	return out.Flush()
}

// patch writes entries in git's format.
type patch struct {
	out      *bufio.Writer
	content  *pack
	contents bool
}

// entry writes one entry; from is the entry that it was renamed from, if any.
func (p patch) entry(e, from Entry) error {
	before, after := blobOf(e.Before), blobOf(e.After)
	switch {
	case from.Path != "":
		p.rename(from, e)
		return nil
	case before.mode == "" && after.mode == "", before == after:
		return nil
	case before.mode != "" && after.mode != "" && before.kind != after.kind: // git writes two patches for a change of kind
		if err := p.file(e.Path, before, blob{}, e.Binary); err != nil {
			return err
		}
		return p.file(e.Path, blob{}, after, e.Binary)
	}
	return p.file(e.Path, before, after, e.Binary)
}

// blob is a file or link in git's terms.
type blob struct {
	kind, mode string
	state      State
}

func blobOf(s State) blob {
	switch {
	case s.Kind == Link:
		return blob{Link, "120000", s}
	case s.Kind == File && s.Mode&0o100 != 0:
		s.Mode = 0
		return blob{File, "100755", s}
	case s.Kind == File:
		s.Mode = 0
		return blob{File, "100644", s}
	}
	return blob{}
}

func (p patch) rename(from, to Entry) {
	fmt.Fprintf(p.out, "diff --git %s %s\n", quoteName("a/"+from.Path), quoteName("b/"+to.Path))
	if before, after := blobOf(from.Before), blobOf(to.After); before.mode != after.mode {
		fmt.Fprintf(p.out, "old mode %s\nnew mode %s\n", before.mode, after.mode)
	}
	fmt.Fprintf(p.out, "similarity index 100%%\nrename from %s\nrename to %s\n", quoteName(from.Path), quoteName(to.Path))
}

func (p patch) file(full string, before, after blob, isBinary bool) error {
	old, now := quoteName("a/"+full), quoteName("b/"+full)
	fmt.Fprintf(p.out, "diff --git %s %s\n", old, now)
	index := ""
	switch {
	case before.mode == "":
		fmt.Fprintf(p.out, "new file mode %s\n", after.mode)
		old = "/dev/null"
	case after.mode == "":
		fmt.Fprintf(p.out, "deleted file mode %s\n", before.mode)
		now = "/dev/null"
	case before.mode != after.mode:
		fmt.Fprintf(p.out, "old mode %s\nnew mode %s\n", before.mode, after.mode)
	default:
		index = " " + after.mode
	}
	if before.state == after.state {
		return nil
	}
	x, err := p.hash(before)
	if err != nil {
		return err
	}
	y, err := p.hash(after)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "index %s..%s%s\n", x, y, index)
	if !isBinary {
		a, okA := p.text(before)
		b, okB := p.text(after)
		if !okA || !okB {
			return errors.New("its content is not stored")
		}
		_, err := io.WriteString(p.out, diff.Unified(padName(old), a, padName(now), b))
		return err
	}
	if !p.contents {
		fmt.Fprintf(p.out, "Binary files %s and %s differ\n", old, now)
		return nil
	}
	p.out.WriteString("GIT binary patch\n")
	return errors.Join(p.literal(after), p.literal(before))
}

// padName pads a name with spaces as git does, which otherwise reads the text behind a space as a time.
func padName(name string) string {
	if strings.Contains(name, " ") && name != "/dev/null" {
		return name + "\t"
	}
	return name
}

func (p patch) text(b blob) (string, bool) {
	if b.kind == Link {
		return b.state.Target, true
	}
	text, ok := p.content.read(b.state, maxText)
	return string(text), ok
}

// copy writes the content of a blob.
func (p patch) copy(w io.Writer, b blob) (err error) {
	switch b.kind {
	case Link:
		_, err = io.WriteString(w, b.state.Target)
	case File:
		err = p.content.copy(context.Background(), w, b.state)
	}
	return err
}

func (b blob) size() int64 {
	if b.kind == Link {
		return int64(len(b.state.Target))
	}
	return b.state.Size
}

// hash returns the hash by which git names a content.
func (p patch) hash(b blob) (string, error) {
	if b.kind == "" {
		return strings.Repeat("0", 2*sha1.Size), nil
	}
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", b.size())
	err := p.copy(sum, b)
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// literal writes a content in the format of git's binary patches.
func (p patch) literal(b blob) error {
	fmt.Fprintf(p.out, "literal %d\n", b.size())
	lines := &base85{out: p.out}
	z := zlib.NewWriter(lines)
	err := errors.Join(p.copy(z, b), z.Close())
	lines.flush()
	p.out.WriteByte('\n')
	return err
}

// base85 writes lines of at most 52 bytes, each behind a letter for their number, and encodes four bytes as five
// digits.
type base85 struct {
	out  *bufio.Writer
	line [52]byte
	n    int
}

func (w *base85) Write(b []byte) (int, error) {
	for i := 0; i < len(b); {
		n := copy(w.line[w.n:], b[i:])
		i, w.n = i+n, w.n+n
		if w.n == len(w.line) {
			w.flush()
		}
	}
	return len(b), nil
}

func (w *base85) flush() {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	if w.n == 0 {
		return
	}
	if w.n <= 26 {
		w.out.WriteByte(byte('A' + w.n - 1))
	} else {
		w.out.WriteByte(byte('a' + w.n - 27))
	}
	clear(w.line[w.n:])
	for i := 0; i < w.n; i += 4 {
		v := binary.BigEndian.Uint32(w.line[i:])
		var five [5]byte
		for d := 4; d >= 0; d-- {
			five[d] = digits[v%85]
			v /= 85
		}
		w.out.Write(five[:])
	}
	w.out.WriteByte('\n')
	w.n = 0
}
