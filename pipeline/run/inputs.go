package run

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// WithheldRemedy tells how to get an artifact that is withheld.
const WithheldRemedy = "have the program write what is needed without the secret, or print it: secrets are masked in output; " +
	"a person can have such files handed out with artifacts.withhold: false in the configuration"

// inputWriter writes files into a workspace and remembers their hashes.
type inputWriter struct {
	files   backends.Files
	sums    map[string]string      // SHA-256 by name
	room    int64                  // bytes left
	skipped int                    // links and files that were not copied
	ours    func() backends.Hidden // files that are not copied, see Config.Protected
	left    func(run, artifact string, limit int64) ([]byte, error)
}

// writeInputs writes the program, unless it is a cell, and its inputs into the workspace. A host workspace gets
// nothing, because it would stay there.
func (e *execution) writeInputs(ctx context.Context) (map[string]string, error) {
	// Our own files are located at the first input from the host: that takes a hundred system calls, and most runs
	// have no such input.
	ours := sync.OnceValue(func() backends.Hidden { return backends.LocateHidden(e.Pipeline.Config.Protected) })
	p := &inputWriter{files: e.sandbox.Files(), sums: map[string]string{}, room: e.limits.Disk, ours: ours, left: e.ReadArtifact}
	if e.request.Workspace.Host != "" {
		if len(e.request.Inputs) > 0 {
			return nil, pipeline.Refuse(pipeline.StageValidate, "inputs would be copied into the host's workspace and stay there",
				"use one of ", remedy.Input, " and ", remedy.Workspace, ", or show the inputs with ", remedy.Mount)
		}
		return p.sums, nil
	}
	if e.request.Command == nil && e.guard == nil {
		if err := p.program(e.program, e.displayFile); err != nil {
			return nil, err
		}
	}
	for _, in := range e.request.Inputs {
		if err := p.input(ctx, in); err != nil {
			return nil, err
		}
	}
	if p.skipped > 0 {
		e.Warn(fmt.Sprintf("%d inputs were not copied: links to directories or out of the input, special files, and files of sandboxmcp's own",
			p.skipped))
	}
	return p.sums, nil
}

// program writes the program, or a driver under its name that moves the program there.
func (p *inputWriter) program(c validate.Checked, displayFile string) error {
	if displayFile == "" {
		return p.writeFile(c.Name, 0o644, bytes.NewReader(c.Source))
	}
	if err := p.writeFile(displayFile, 0o644, bytes.NewReader(c.Source)); err != nil {
		return err
	}
	p.sums[c.Name] = p.sums[displayFile]
	delete(p.sums, displayFile)
	if err := p.files.Put(c.Name, 0o644, bytes.NewReader(kernel.ScriptDriver(displayFile))); err != nil {
		return fmt.Errorf("put %q into the workspace: %w", c.Name, err)
	}
	return nil
}

// input copies one input into the workspace.
func (p *inputWriter) input(ctx context.Context, in Input) error {
	if in.Run != "" {
		content, err := p.left(in.Run, in.Artifact, p.room)
		if err != nil {
			do := pipeline.Remedy{remedy.Stored, " lists the artifacts that are still stored; they are deleted after a while"}
			if errors.As(err, new(*results.Withheld)) {
				do = pipeline.Remedy{WithheldRemedy}
			}
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("input %q: %v", in.Name, err), do...)
		}
		return p.writeFile(in.Name, 0o644, bytes.NewReader(content))
	}
	if in.Host == "" {
		return p.writeFile(in.Name, 0o644, bytes.NewReader(in.Content))
	}
	name := cmp.Or(in.Name, filepath.Base(in.Host))
	if ours := p.ours().PlaceAround(containment.ResolveLinks(in.Host)); ours != "" {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("input: %s is, or is in, %s, which belongs to sandboxmcp", in.Host, ours),
			"copy other files")
	}
	f, info, err := hostfs.Open(in.Host)
	if errors.Is(err, syscall.EISDIR) {
		return p.directory(ctx, in.Host, name)
	}
	return p.file(f, info, err, name)
}

// directory copies the files below dir. Root keeps links from leading out of it.
func (p *inputWriter) directory(ctx context.Context, dir, to string) error {
	root, err := hostfs.OpenDir(dir)
	if err != nil {
		return badInput(err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("input %s: %v", dir, err), "")
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ours := p.ours().PlaceAround(containment.ResolveLinks(filepath.Join(dir, filepath.FromSlash(name)))); ours != "" {
			p.skipped++
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		// A link is copied as its target, if that is a file in the same directory.
		if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
			p.skipped++
			return nil
		}
		f, info, err := statefile.OpenIn(root.Stat, root.OpenFile, name)
		return p.file(f, info, err, path.Join(to, name))
	})
}

// file copies an open file, or refuses the input if err says that it could not be opened.
func (p *inputWriter) file(f *os.File, info fs.FileInfo, err error, to string) error {
	if err != nil {
		return badInput(err)
	}
	defer f.Close()
	return p.writeFile(to, uint32(info.Mode().Perm())|0o600, f)
}

// badInput refuses an input that can't be opened.
func badInput(err error) error {
	if link, is := errors.AsType[*hostfs.LinkError](err); is {
		return pipeline.Refuse(pipeline.StageValidate, "input: "+err.Error(), "to use it, name its target: ", remedy.Input.With(link.To))
	}
	return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("input: %v", err), "")
}

// writeFile writes a file of the workspace, up to the bytes left, and keeps its hash.
func (p *inputWriter) writeFile(name string, mode uint32, r io.Reader) error {
	clean := path.Clean(name)
	if !filepath.IsLocal(clean) || clean == "." {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%q is not a valid name for a file in the workspace", name), "give ",
			remedy.Input, inputName)
	}
	h := sha256.New()
	limit := p.room + 1
	if all, ok := r.(*bytes.Reader); ok {
		limit = min(limit, int64(all.Len())+1) // the copy buffer is no larger
	}
	counted := &io.LimitedReader{R: io.TeeReader(r, h), N: limit}
	if _, twice := p.sums[clean]; twice {
		return p.addIfSame(clean, counted, h.Sum)
	}
	err := p.files.Put(clean, mode, counted)
	if p.room -= limit - counted.N; p.room < 0 {
		return pipeline.Refuse(pipeline.StageValidate, "the inputs are larger than the workspace may be", "raise ", remedy.Disk)
	}
	for _, errno := range []error{syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EINVAL, syscall.ELOOP} {
		if errors.Is(err, errno) {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%q can't be put into the workspace: %v, perhaps because another file or "+
				"directory of this name is there", name, errno), "give ", remedy.Input, inputName)
		}
	}
	if err != nil {
		return fmt.Errorf("put %q into the workspace: %w", name, err)
	}
	p.sums[clean] = hex.EncodeToString(h.Sum(nil))
	return nil
}

// inputName describes valid names of inputs.
const inputName = ` another name in the workspace: a relative one, such as "data/a.csv", with at most 255 bytes between slashes`

// addIfSame accepts a second file of a name if its content is the same, as when the program lies in a directory that
// is an input.
func (p *inputWriter) addIfSame(name string, r io.Reader, sum func([]byte) []byte) error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("read input %q: %w", name, err)
	}
	if hex.EncodeToString(sum(nil)) != p.sums[name] {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("two different inputs are named %q in the workspace", name), "rename one")
	}
	return nil
}
