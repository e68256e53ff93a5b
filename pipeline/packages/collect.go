package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Names below the workspace of an install.
const (
	target     = "new"         // directory of the installed files
	reportFile = "report.json" // pip's report of the install
)

// errTooLarge is the error for files that exceed a size in total.
var errTooLarge = errors.New("the layer would be larger than the store allows")

// harvest holds the files that an install left in its workspace.
type harvest struct {
	files  map[string]file // that were put into the layer's content
	report []byte
	lock   []byte // npm's package-lock.json

	all, brought []Package       // of the layer, and of the order
	received     map[string]bool // hashes of the files that came in
	unknown      int             // files that came in without a hash that was known before
}

// pure reports whether all that came in is files of the packages that the package manager says it brought. Then what it made of them depends
// on nothing else, whatever these files did to it.
func (h harvest) pure() bool {
	named := map[string]bool{}
	for _, p := range h.brought {
		named[p.Hash] = true
	}
	for hash := range h.received {
		if !named[hash] {
			return false
		}
	}
	return h.unknown == 0 && len(named) > 0 && !named[""]
}

// collect copies the installed files out of the sandbox: regular files below target, of at most max bytes in total. All else
// that an install script made is left out. Without a builder nothing was installed, and only the package manager's plans are read.
func collect(ctx context.Context, from backends.Files, b *builder, max int64) (harvest, error) {
	h := harvest{files: map[string]file{}}
	_, err := from.Each(ctx, func(f backends.File) error {
		name, inside := strings.CutPrefix(f.Name, target+"/")
		switch {
		case f.Name == reportFile:
			return read(f, &h.report)
		case !inside, name == "node_modules/.package-lock.json": // by whose times npm would know that its notes are out of date
			return nil
		case !filepath.IsLocal(name) || path.Clean(name) != name:
			return fmt.Errorf("the name %q leads out of the layer", name)
		}
		if name == "package-lock.json" {
			if err := read(f, &h.lock); err != nil {
				return err
			}
		}
		if b == nil {
			return nil
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		one, err := b.copy(filepath.FromSlash(name), f.Mode&0o100 != 0, r, max)
		if err != nil {
			return fmt.Errorf("%s: %w", shorten(name), err)
		}
		max -= one.size
		h.files[name] = one
		return nil
	})
	if err != nil {
		return harvest{}, fmt.Errorf("collect what was installed: %w", err)
	}
	return h, nil
}

// read reads the first 64 MiB of a file.
func read(f backends.File, to *[]byte) error {
	const limit = 64 << 20
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	*to, err = io.ReadAll(io.LimitReader(r, limit))
	return err
}
