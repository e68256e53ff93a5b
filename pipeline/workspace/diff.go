package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// maxDiff bounds a diff for people or agents, in bytes.
const maxDiff = 4 << 20

// Diff returns the difference of a change set as a patch for readers, without the secrets of the namespace. A patch
// that is longer than maxDiff is cut, and its last line says so.
func Diff(ctx context.Context, p *pipeline.Pipeline, set changes.Set, paths []string) (string, error) {
	store, err := openStore(p)
	if err != nil {
		return "", err
	}
	lease, err := p.Config.Vault.LeaseAll(ctx, set.Namespace)
	if err != nil {
		return "", pipeline.RedactionError("the difference", err)
	}
	defer lease.Close()
	var text strings.Builder
	err = store.Diff(&limited{w: &text, left: maxDiff}, set, paths)
	cut := errors.Is(err, io.ErrShortWrite)
	if err != nil && !cut {
		return "", err
	}
	diff := p.NewRedactor(vault.Leases{lease}).CleanEnd(text.String())
	if cut {
		diff = diff[:strings.LastIndexByte(diff, '\n')+1] +
			fmt.Sprintf("The difference is cut here, after %d MiB: name paths to read them, or export it.\n", maxDiff>>20)
	}
	return diff, nil
}

// Export writes the difference of a change set as a patch for "git apply", with unredacted contents.
func Export(w io.Writer, p *pipeline.Pipeline, set changes.Set, paths []string) error {
	store, err := openStore(p)
	if err != nil {
		return err
	}
	return store.Export(w, set, paths)
}

// List returns the change sets that a filter chooses, the newest first, without their entries.
func List(p *pipeline.Pipeline, f changes.Filter) ([]changes.Set, error) {
	store, err := openStore(p)
	if err != nil {
		return nil, err
	}
	return store.List(f)
}

// Get returns a change set of a namespace by its id or an unambiguous prefix.
func Get(p *pipeline.Pipeline, namespace, id string) (changes.Set, error) {
	return Find(p, id, func(own string) bool { return own == namespace })
}

// Find returns a change set by its id or an unambiguous prefix, if sees accepts its namespace.
func Find(p *pipeline.Pipeline, id string, sees func(namespace string) bool) (changes.Set, error) {
	store, err := openStore(p)
	if err != nil {
		return changes.Set{}, err
	}
	return find(store.Get, id, sees)
}

// limited writes to w up to a number of bytes.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n, err := l.w.Write(b[:min(len(b), l.left)])
	if l.left -= n; err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}
