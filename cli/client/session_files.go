package client

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p commands) sessionPutCommand() *cli.Command {
	return &cli.Command{
		Name:      "put",
		Usage:     "put a file or a directory into a session",
		UsageText: "sandboxmcp session put SESSION|--id SESSION FILE|DIR [TO] [--json] [--server PID]",
		Description: `It is put into the directory TO of the session, by default /workspace, under its own name: all of it, or nothing where
something fails. A file that is there is replaced at once. Links that lead out of DIR, and what is no file, are left
out. The SHA-256 that is printed is that of the file, or of the tar in which a directory is sent; the server checks it.

Example: sandboxmcp session put 01K9ZB5W7Q src`,
		Flags:  []cli.Flag{idFlag(), command.JSONFlag(), ServerFlag()},
		Action: p.sessionPut,
	}
}

func (p commands) sessionGetCommand() *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "save a file or a directory of a session",
		UsageText: "sandboxmcp session get SESSION|--id SESSION PATH [DIR] [--max MB] [--json] [--server PID]",
		Description: `It is saved in the directory DIR, by default the current one, under its own name: all of it, or nothing where
something fails. Nothing that is there is replaced. A relative PATH is in the session's /workspace. What a secret of
the session is in is withheld. The SHA-256 that is printed, and checked, is that of the file, or of the tar in which a
directory came.

Example: sandboxmcp session get 01K9ZB5W7Q results`,
		Flags: []cli.Flag{idFlag(), &cli.Int64Flag{Name: "max", Usage: "save at most `MB`: files with holes in them may say that they are very large", DefaultText: "the session's limit of disk"},
			command.JSONFlag(), ServerFlag()},
		Action: p.sessionGet,
	}
}

func (p commands) sessionCopyCommand() *cli.Command {
	return &cli.Command{
		Name:      "copy",
		Usage:     "copy into a session what another one exports",
		UsageText: "sandboxmcp session copy SESSION|--id SESSION --from SESSION PATH [TO] [--json] [--server PID]",
		Description: `PATH is below /workspace/exports of a session of the same namespace: what that one's code puts there, and nothing else.
A file, or what is in a directory, is put into the directory TO, by default /workspace.

Example: sandboxmcp session copy 01K9ZB5W7Q --from 01K9ZC3M2A results data`,
		Flags:  []cli.Flag{idFlag(), &cli.StringFlag{Name: "from", Usage: "the session `ID` that exports it"}, command.JSONFlag(), ServerFlag()},
		Action: p.sessionCopy,
	}
}

func (p commands) sessionCopy(c *cli.Context) error {
	id, words, err := sessionNamed(c, 2)
	if err != nil {
		return err
	}
	if len(words) == 0 || c.String("from") == "" {
		return exit.Usage("sandboxmcp session copy --help", "copy needs --from SESSION, and a PATH below its /workspace/exports")
	}
	q := control.Export{From: c.String("from"), Path: words[0], To: append(words, "")[1]}
	return Asking(c, func(ctx context.Context, client *control.Client) error {
		moved, err := client.CopyExport(ctx, id, q)
		if err != nil {
			return err
		}
		return p.Printf(c, moved, "copied %s, %s, into %s of session %s\n", terminal.Count(moved.Files, "file"), terminal.Count(int(moved.Bytes), "byte"), terminal.Visible(moved.Path), terminal.Visible(moved.Session))
	})
}

// transferred describes what was moved between this machine and a session.
type transferred struct {
	Session string `json:"session,omitempty"`
	Path    string `json:"path"` // where it is now
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	LeftOut int    `json:"left_out,omitempty"`
}

func (p commands) sessionPut(c *cli.Context) error {
	id, words, err := sessionNamed(c, 2)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return exit.Usage("sandboxmcp session put --help", "put needs a FILE or a DIR")
	}
	to := append(words, "")[1]
	source, err := filepath.Abs(words[0])
	if err == nil {
		_, err = os.Stat(source)
	}
	if err != nil {
		return exit.Usage("check the spelling; the path starts at the current directory", "%v", err)
	}
	return Asking(c, func(ctx context.Context, client *control.Client) error {
		k := &packing{sum: sha256.New()}
		out, in := io.Pipe()
		packed := make(chan error, 1)
		go func() {
			err := k.pack(ctx, in, source)
			in.CloseWithError(err)
			packed <- err
		}()
		moved, err := client.PutFiles(ctx, id, to, out)
		out.CloseWithError(errors.New("the server takes no more"))
		if wrong := <-packed; wrong != nil && !errors.As(err, new(*control.Failure)) {
			err = wrong // why nothing was sent
		}
		if err != nil {
			return err
		}
		t := transferred{moved.Session, path.Join(moved.Path, filepath.Base(source)), moved.Files, moved.Bytes, hex.EncodeToString(k.sum.Sum(nil)), k.leftOut}
		if k.leftOut > 0 {
			p.Say("%d left out: links that lead out of the directory, and what is no file", k.leftOut)
		}
		return p.Printf(c, t, "put %s, %s, into session %s: %s\nSHA-256 %s\n", terminal.Count(t.Files, "file"), terminal.Count(int(t.Bytes), "byte"), terminal.Visible(t.Session), terminal.Visible(t.Path), t.SHA256)
	})
}

// packing is a file or a directory that is written as a tar.
type packing struct {
	out     *tar.Writer
	sum     hash.Hash
	leftOut int
}

// pack writes source under its own name. What becomes shorter meanwhile is an error.
func (k *packing) pack(ctx context.Context, w io.Writer, source string) error {
	base := filepath.Base(source)
	source, err := filepath.EvalSymlinks(source) // a link that a person names is what it leads to
	if err != nil {
		return err
	}
	if info, err := os.Stat(source); err != nil {
		return err
	} else if !info.IsDir() {
		root, err := os.OpenRoot(filepath.Dir(source))
		if err != nil {
			return err
		}
		defer root.Close()
		k.out = tar.NewWriter(w)
		if err = k.file(root, filepath.Base(source), base, k.sum); err == nil && k.leftOut > 0 {
			err = exit.Usage("name a file or a directory", "%s is neither a file nor a directory", terminal.Visible(source))
		}
		return errors.Join(err, k.out.Close())
	}
	root, err := os.OpenRoot(source)
	if err != nil {
		return err
	}
	defer root.Close()
	k.out = tar.NewWriter(io.MultiWriter(w, k.sum))
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		to := path.Join(base, name)
		switch {
		case d.IsDir():
			info, err := d.Info()
			if err != nil {
				return err
			}
			return k.out.WriteHeader(header(tar.TypeDir, to+"/", info))
		case d.Type()&fs.ModeSymlink != 0:
			return k.link(root, name, to)
		}
		return k.file(root, name, to, io.Discard)
	})
	return errors.Join(err, k.out.Close())
}

func header(kind byte, name string, info fs.FileInfo) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX}
}

func (k *packing) link(root *os.Root, name, to string) error {
	target, err := root.Readlink(name)
	if err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if target = filepath.ToSlash(target); !guest.LeadsInside(name, target) {
		k.leftOut++
		return nil
	}
	h := header(tar.TypeSymlink, to, info)
	h.Linkname = target
	return k.out.WriteHeader(h)
}

func (k *packing) file(root *os.Root, name, to string, sum io.Writer) error {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		k.leftOut++
		return err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // what became a pipe meanwhile holds nothing up
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		k.leftOut++
		return err
	}
	h := header(tar.TypeReg, to, info)
	h.Size = info.Size()
	if err := k.out.WriteHeader(h); err != nil {
		return err
	}
	if _, err = io.CopyN(io.MultiWriter(k.out, sum), f, h.Size); errors.Is(err, io.EOF) {
		return exit.Fail("try again when nothing writes to it", "%s became shorter while it was read", terminal.Visible(name))
	}
	return err
}

func (p commands) sessionGet(c *cli.Context) error {
	id, words, err := sessionNamed(c, 2)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return exit.Usage("sandboxmcp session get --help", "get needs a PATH in the session")
	}
	dir := append(words, ".")[1]
	if c.IsSet("max") && c.Int64("max") <= 0 {
		return exit.Usage("leave it out for the session's limit of disk", "--max must be more than 0")
	}
	return Asking(c, func(ctx context.Context, client *control.Client) error {
		info, err := living(ctx, client, id)
		if err != nil {
			return err
		}
		from, err := pipeline.ResolvePath(info, words[0])
		if err != nil {
			return err
		}
		s := &saving{most: info.Limits.Disk << 20, sum: sha256.New()}
		if c.IsSet("max") {
			s.most = c.Int64("max") << 20
		}
		isTar, content, err := client.GetFiles(ctx, info.ID, from)
		if err != nil {
			return err
		}
		defer content.Close()
		if err := s.save(content, isTar, dir, path.Base(from)); errors.Is(err, io.ErrUnexpectedEOF) {
			return exit.Fail("try again when nothing writes there", "not all of it came: a file became shorter while it was read, or the session has ended")
		} else if err != nil {
			return err
		}
		t := transferred{info.ID, s.path, s.files, s.bytes, hex.EncodeToString(s.sum.Sum(nil)), 0}
		return p.Printf(c, t, "saved %s, %s, as %s\nSHA-256 %s\n", terminal.Count(t.Files, "file"), terminal.Count(int(t.Bytes), "byte"), terminal.Visible(t.Path), t.SHA256)
	})
}

// saving is a file or a directory that is saved. What a session sends may be its code's: names, sizes and kinds are believed nothing of.
type saving struct {
	most  int64 // bytes
	sum   hash.Hash
	path  string
	files int
	bytes int64
	links [][2]string // names and targets of links, which are made when nothing more is written through them
}

// save writes content into a new directory beside its place, and moves it there when it is whole.
func (s *saving) save(content io.Reader, isTar bool, dir, base string) error {
	name, err := filepath.Localize(strings.Trim(base, "/"))
	if base == "/" {
		name, err = "root", nil
	}
	if err != nil {
		return exit.Fail("move it in the session", "no file can be called %s here", terminal.Visible(base))
	}
	s.path = filepath.Join(dir, name)
	taken := func() error {
		if _, err := os.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
			return exit.Fail("name a directory without it", "%s is there already", terminal.Visible(s.path))
		}
		return nil
	}
	if err := taken(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return exit.Fail("name a directory that can be written", "%v", err)
	}
	temp, err := os.MkdirTemp(dir, ".session-get-*")
	if err != nil {
		return exit.Fail("name a directory that can be written", "%v", err)
	}
	defer os.RemoveAll(temp)
	root, err := os.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer root.Close()
	content = io.TeeReader(content, s.sum)
	if isTar {
		err = s.unpack(root, content)
	} else {
		err = s.file(root, "content", 0o644, content)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(content, 1<<20)) // whose end says whether it is what was sent
	}
	if err == nil {
		err = taken()
	}
	if err != nil {
		return err
	}
	if isTar {
		err = os.Chmod(temp, 0o755)
	} else {
		temp = filepath.Join(temp, "content")
	}
	return errors.Join(err, os.Rename(temp, s.path))
}

func (s *saving) unpack(root *os.Root, content io.Reader) error {
	bounded := &io.LimitedReader{R: content, N: 2*s.most + 16<<20} // with its headers
	in := tar.NewReader(bounded)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) && bounded.N > 0 {
			break
		}
		if bounded.N <= 0 {
			return s.tooMuch()
		}
		if err != nil {
			return err
		}
		if err := s.entry(root, h, in); err != nil {
			return err
		}
	}
	for _, l := range s.links {
		if err := root.Symlink(l[1], l[0]); err != nil {
			return err
		}
	}
	return nil
}

func (s *saving) entry(root *os.Root, h *tar.Header, content io.Reader) error {
	name, err := filepath.Localize(path.Clean(h.Name))
	if err != nil || name == "." {
		return exit.Fail("", "the session sent %s, which is no name for a file in a directory", terminal.Visible(h.Name))
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode & 0o777) // and none that gives more rights
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeReg:
		return s.file(root, name, mode, content)
	case tar.TypeSymlink:
		if !guest.LeadsInside(path.Clean(h.Name), h.Linkname) {
			return exit.Fail("", "the session sent the link %s, which leads out of the directory", terminal.Visible(h.Name))
		}
		s.links = append(s.links, [2]string{name, filepath.FromSlash(h.Linkname)})
		return nil
	}
	return exit.Fail("", "the session sent %s, which is neither a file, nor a directory, nor a link", terminal.Visible(h.Name))
}

func (s *saving) file(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(struct{ io.Writer }{f}, io.LimitReader(content, s.most-s.bytes+1)) // with holes in it, a file of any size is a short tar
	s.files, s.bytes = s.files+1, s.bytes+n
	if err = errors.Join(err, f.Close()); err == nil && s.bytes > s.most {
		err = s.tooMuch()
	}
	return err
}

func (s *saving) tooMuch() error {
	return exit.Fail("--max MB", "there is more than %d MB to save", s.most>>20)
}
