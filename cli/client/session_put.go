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
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p commands) sessionPutCommand() *cli.Command {
	return &cli.Command{
		Name:      "put",
		Usage:     "copy a file or a directory into a session",
		UsageText: "sandboxmcp session put SESSION|--id SESSION FILE|DIR [TO] [--json] [--server PID]",
		Description: `It is copied under its own name into the directory TO of the session, by default /workspace: completely, or not at all if
something fails. An existing file is replaced atomically. Links out of DIR and special files are left out. The SHA-256
that is printed, and checked by the server, is that of the file, or of a directory's tar.

Example: sandboxmcp session put 01K9ZB5W7Q src`,
		Flags:  []cli.Flag{sessionFlag(), command.JSONFlag(), ServerFlag()},
		Action: p.sessionPut,
	}
}

// transferred describes the files that were copied between this machine and a session.
type transferred struct {
	Session string `json:"session,omitempty"`
	Path    string `json:"path"` // of the copy
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	LeftOut int    `json:"left_out,omitempty"`
}

func (p commands) sessionPut(c *cli.Context) error {
	id, words, err := sessionArgument(c, 2)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return exit.Usage("sandboxmcp session put --help", "put needs a FILE or a DIR")
	}
	to := append(words, "")[1]
	source, err := hostfs.Resolve(words[0])
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Usage("check the spelling; the path starts at the current directory", "%v", err)
	}
	if err != nil {
		return command.PathError("", "", err)
	}
	return WithServerHint(c, func(ctx context.Context, client *control.Client) error {
		k := &upload{sum: sha256.New()}
		out, in := io.Pipe()
		packed := make(chan error, 1)
		go func() {
			err := k.pack(ctx, in, source)
			in.CloseWithError(err)
			packed <- err
		}()
		moved, err := client.PutFiles(ctx, id, to, out)
		out.CloseWithError(errors.New("the server accepts no more data"))
		if wrong := <-packed; wrong != nil && !errors.As(err, new(*control.Failure)) {
			err = wrong // why nothing was sent
		}
		if err != nil {
			return err
		}
		t := transferred{moved.Session, path.Join(moved.Path, filepath.Base(source)), moved.Files, moved.Bytes,
			hex.EncodeToString(k.sum.Sum(nil)), k.leftOut}
		if k.leftOut > 0 {
			p.Messagef("%d left out: links out of the directory, and special files", k.leftOut)
		}
		return p.Printf(c, t, "put %s, %s, into session %s: %s\nSHA-256 %s\n", terminal.Count(t.Files, "file"),
			terminal.Count(int(t.Bytes), "byte"), terminal.Visible(t.Session), terminal.Visible(t.Path), t.SHA256)
	})
}

// upload writes a file or directory as a tar.
type upload struct {
	out     *tar.Writer
	sum     hash.Hash
	leftOut int
}

// pack writes source under its own name. A file that shrinks meanwhile is an error.
func (k *upload) pack(ctx context.Context, w io.Writer, source string) error {
	base := filepath.Base(source)
	root, err := hostfs.OpenDir(source)
	if errors.Is(err, syscall.ENOTDIR) {
		root, name, err := hostfs.OpenParent(source)
		if err != nil {
			return err
		}
		defer root.Close()
		k.out = tar.NewWriter(w)
		if err = k.addFile(root, name, base, k.sum); err == nil && k.leftOut > 0 {
			err = exit.Usage("name a file or a directory", "%s is neither a file nor a directory", terminal.Visible(source))
		}
		return errors.Join(err, k.out.Close())
	}
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
			return k.out.WriteHeader(tarHeader(tar.TypeDir, to+"/", info))
		case d.Type()&fs.ModeSymlink != 0:
			return k.addLink(root, name, to)
		}
		return k.addFile(root, name, to, io.Discard)
	})
	return errors.Join(err, k.out.Close())
}

func tarHeader(kind byte, name string, info fs.FileInfo) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second),
		Format: tar.FormatPAX}
}

func (k *upload) addLink(root *os.Root, name, to string) error {
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
	h := tarHeader(tar.TypeSymlink, to, info)
	h.Linkname = target
	return k.out.WriteHeader(h)
}

func (k *upload) addFile(root *os.Root, name, to string, sum io.Writer) error {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		k.leftOut++
		return err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: it may be a FIFO by now
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		k.leftOut++
		return err
	}
	h := tarHeader(tar.TypeReg, to, info)
	h.Size = info.Size()
	if err := k.out.WriteHeader(h); err != nil {
		return err
	}
	if _, err = io.CopyN(io.MultiWriter(k.out, sum), f, h.Size); errors.Is(err, io.EOF) {
		return exit.Fail("try again when nothing writes to it", "%s shrank while it was read", terminal.Visible(name))
	}
	return err
}
