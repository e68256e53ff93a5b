package client

import (
	"archive/tar"
	"context"
	"crypto/rand"
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

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

func (p commands) sessionGetCommand() *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "save a file or a directory of a session",
		UsageText: "sandboxmcp session get SESSION|--id SESSION PATH [DIR] [--max MB] [--json] [--server PID]",
		Description: `It is saved under its own name in the directory DIR, by default the current one: completely, or not at all if something
fails. It replaces nothing. A relative PATH is below the session's /workspace. Files with a secret of the session are
withheld. The SHA-256 that is printed and checked is that of the file, or of a directory's tar.

Example: sandboxmcp session get 01K9ZB5W7Q results`,
		Flags: []cli.Flag{sessionFlag(), &cli.Int64Flag{Name: "max", Usage: "save at most `MB`: sparse files can claim any size",
			DefaultText: "the session's limit of disk"},
			command.JSONFlag(), ServerFlag()},
		Action: p.sessionGet,
	}
}

func (p commands) sessionGet(c *cli.Context) error {
	id, words, err := sessionArgument(c, 2)
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
	return WithServerHint(c, func(ctx context.Context, client *control.Client) error {
		info, err := findSession(ctx, client, id)
		if err != nil {
			return err
		}
		from, err := session.ResolvePath(info, words[0])
		if err != nil {
			return err
		}
		s := &download{most: info.Limits.Disk << 20, sum: sha256.New()}
		if c.IsSet("max") {
			s.most = c.Int64("max") << 20
		}
		isTar, content, err := client.GetFiles(ctx, info.ID, from)
		if err != nil {
			return err
		}
		defer content.Close()
		if err := s.save(content, isTar, dir, path.Base(from)); errors.Is(err, io.ErrUnexpectedEOF) {
			return exit.Fail("try again when nothing writes there", "incomplete: a file shrank while it was read, or the session ended")
		} else if err != nil {
			return err
		}
		t := transferred{info.ID, s.path, s.files, s.bytes, hex.EncodeToString(s.sum.Sum(nil)), 0}
		return p.Printf(c, t, "saved %s, %s, as %s\nSHA-256 %s\n", terminal.Count(t.Files, "file"), terminal.Count(int(t.Bytes), "byte"),
			terminal.Visible(t.Path), t.SHA256)
	})
}

// download writes a received file or directory. The session's code may have sent it: names, sizes and types are
// untrusted.
type download struct {
	most  int64 // maximum size in bytes
	sum   hash.Hash
	path  string
	files int
	bytes int64
	links [][2]string // names and targets of links, created after all files so that none is written through them
}

// save writes content into a new directory beside its destination, and renames it when complete.
func (s *download) save(content io.Reader, isTar bool, to, base string) error {
	name, err := filepath.Localize(strings.Trim(base, "/"))
	if base == "/" {
		name, err = "root", nil
	}
	if err != nil {
		return exit.Fail("move it in the session", "%s is not a valid file name here", terminal.Visible(base))
	}
	s.path = filepath.Join(to, name)
	taken := exit.Fail("name a directory without it", "%s already exists", terminal.Visible(s.path))
	dir, err := hostfs.MakeDir(to)
	if err != nil {
		return command.PathError("name a directory that can be written", "", err)
	}
	defer dir.Close()
	if _, err := dir.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return taken
	}
	temp := ".session-get-" + rand.Text()
	if err := dir.Mkdir(temp, 0o700); err != nil {
		return exit.Fail("name a directory that can be written", "%v", err)
	}
	defer dir.RemoveAll(temp)
	root, err := hostfs.OpenBelow(dir, temp)
	if err != nil {
		return err
	}
	defer root.Close()
	content = io.TeeReader(content, s.sum)
	if isTar {
		err = s.unpack(root, content)
	} else {
		err = s.writeFile(root, "content", 0o644, content)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(content, 1<<20)) // its end tells whether all was sent
	}
	switch {
	case err != nil:
		return err
	case isTar:
		err = root.Chmod(".", 0o755)
	default:
		temp = filepath.Join(temp, "content")
	}
	if err == nil {
		err = hostfs.RenameNew(dir, temp, name)
	}
	if errors.Is(err, fs.ErrExist) {
		return taken
	}
	return err
}

func (s *download) unpack(root *os.Root, content io.Reader) error {
	bounded := &io.LimitedReader{R: content, N: 2*s.most + 16<<20} // including tar headers
	in := tar.NewReader(bounded)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) && bounded.N > 0 {
			break
		}
		if bounded.N <= 0 {
			return s.tooLargeError()
		}
		if err != nil {
			return err
		}
		if err := s.writeEntry(root, h, in); err != nil {
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

func (s *download) writeEntry(root *os.Root, h *tar.Header, content io.Reader) error {
	name, err := filepath.Localize(path.Clean(h.Name))
	if err != nil || name == "." {
		return exit.Fail("", "the session sent %s, which is not a valid file name", terminal.Visible(h.Name))
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode & 0o777) // the least rights of both
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeReg:
		return s.writeFile(root, name, mode, content)
	case tar.TypeSymlink:
		if !guest.LeadsInside(path.Clean(h.Name), h.Linkname) {
			return exit.Fail("", "the session sent the link %s, which leads out of the directory", terminal.Visible(h.Name))
		}
		s.links = append(s.links, [2]string{name, filepath.FromSlash(h.Linkname)})
		return nil
	}
	return exit.Fail("", "the session sent %s, which is neither a file, nor a directory, nor a link", terminal.Visible(h.Name))
}

func (s *download) writeFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(struct{ io.Writer }{f}, io.LimitReader(content, s.most-s.bytes+1)) // a short tar can hold a sparse file of any size
	s.files, s.bytes = s.files+1, s.bytes+n
	if err = errors.Join(err, f.Close()); err == nil && s.bytes > s.most {
		err = s.tooLargeError()
	}
	return err
}

func (s *download) tooLargeError() error {
	return exit.Fail("--max MB", "more than %d MB to save", s.most>>20)
}
