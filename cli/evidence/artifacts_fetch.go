package evidence

import (
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
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// sumsName is the file of checksums that signer saves beside artifacts.
const sumsName = "SHA256SUMS"

// fetchOne writes one file.
func (p commands) fetchOne(c *cli.Context, left *storedFiles, name string) error {
	stored, base, err := left.resolveName(name)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return exit.Usage("sandboxmcp artifacts "+left.ID+" --json", "--json is for the list; a file is written unchanged")
	}
	write := func(w io.Writer) error { return p.copyStored(c, left, stored, w) }
	if c.Bool("verify") { // before any byte of it is written
		v, err := p.verifyStored(c, left, left.results.ArtifactDir(left.ID))
		if err != nil {
			return err
		}
		if !v.OK {
			return p.printVerified(c, *v)
		}
	}
	out := c.String("out")
	if out == "" || out == "-" {
		screen := &terminal.Filter{W: p.Out, Open: !terminal.IsTerminal(p.Out)}
		return errors.Join(write(screen), screen.Close())
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() || strings.HasSuffix(out, "/") {
		dir, err := hostfs.MakeDir(out)
		if err != nil {
			return command.PathError("name a directory that can be written", "--out", err)
		}
		dir.Close()
		out = filepath.Join(out, base)
	}
	if err := p.WriteOutAs(out, 0o644, write); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "wrote %s\n", terminal.Visible(out))
	return err
}

// resolveName returns the name in the result store of the file that a person calls name, and a base name for a copy.
func (left *storedFiles) resolveName(name string) (stored, base string, err error) {
	var names []string
	for _, a := range left.Artifacts {
		if a.Name == name || terminal.Visible(a.Name) == name || "/workspace/"+a.Name == name || "./"+a.Name == name {
			if a.Withheld != "" {
				return "", "", exit.Fail("sandboxmcp config shows artifacts.withhold", "%s is withheld: %s", terminal.Visible(a.Name),
					terminal.Visible(a.Withheld))
			}
			return "files/" + a.Name, safeBaseName(a.Name), nil
		}
		names = append(names, terminal.Visible(a.Name))
	}
	for _, own := range []string{"stdout", "stderr", signer.ReceiptName} {
		if name == own {
			return own, own, nil
		}
		names = append(names, own)
	}
	hint := "sandboxmcp artifacts " + left.ID
	if near := spelling.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return "", "", exit.Fail(hint, "the run left no file %s", terminal.Visible(name))
}

// safeBaseName returns the last part of an artifact's name, as a valid file name.
func safeBaseName(name string) string {
	base := path.Base(name)
	if base == "." || base == ".." || base == "/" {
		return "artifact"
	}
	return strings.ReplaceAll(base, string(filepath.Separator), "_")
}

// copyStored writes a stored artifact, output or receipt to w. A file that does not match its hash is an error.
func (p commands) copyStored(c *cli.Context, left *storedFiles, stored string, w io.Writer) error {
	if stored == signer.ReceiptName {
		text, err := receiptOf(c, left.ID)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	sum := sha256.New()
	for at := int64(0); ; {
		part, err := left.results.Read(left.ID, stored, at, 4<<20) // each call opens the file again
		if err != nil {
			return err
		}
		if len(part.Data) == 0 {
			break
		}
		if _, err := io.MultiWriter(w, sum).Write(part.Data); err != nil {
			return err
		}
		at += int64(len(part.Data))
	}
	i := slices.IndexFunc(left.Artifacts, func(a signer.Artifact) bool { return "files/"+a.Name == stored })
	if i >= 0 && hex.EncodeToString(sum.Sum(nil)) != left.Artifacts[i].SHA256 {
		return exit.Fail("sandboxmcp artifacts "+left.ID+" --verify", "%s was changed: its SHA-256 does not match",
			terminal.Visible(left.Artifacts[i].Name))
	}
	return nil
}

func receiptOf(c *cli.Context, id string) (text []byte, err error) {
	err = wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
		text, err = log.Receipt(ctx, id)
		return err
	})
	return text, err
}

// fetchAll saves all files that are not withheld in a directory, with the receipt. It replaces nothing.
func (p commands) fetchAll(c *cli.Context, left *storedFiles) error {
	if c.Bool("json") {
		return exit.Usage("sandboxmcp artifacts "+left.ID+" --json", "--json and --out contradict each other")
	}
	dir := c.String("out")
	root, err := hostfs.MakeDir(dir) // a program chose the names: none may lead out of the directory
	if err != nil {
		return command.PathError("name a directory that can be written", "--out", err)
	}
	defer root.Close()
	saved, withheldFiles := 0, 0
	for _, a := range left.Artifacts {
		if a.Withheld != "" {
			p.Messagef("%s is withheld: %s", a.Name, a.Withheld)
			withheldFiles++
			continue
		}
		if err := p.saveStored(c, left, root, a.Name, "files/"+a.Name); err != nil {
			return err
		}
		saved++
	}
	if sums, err := os.ReadFile(filepath.Join(left.results.ArtifactDir(left.ID), sumsName)); err == nil && saved > 0 {
		if err := saveNew(root, sumsName, func(w io.Writer) error { _, err := w.Write(sums); return err }); err != nil {
			return err
		}
	}
	if err := p.saveStored(c, left, root, signer.ReceiptName, signer.ReceiptName); err != nil {
		p.Messagef("warning: no receipt: %v", err)
	}
	text := fmt.Sprintf("saved %s in %s", terminal.Count(saved, "file"), dir)
	if withheldFiles > 0 {
		text += fmt.Sprintf("; %d withheld", withheldFiles)
	}
	if _, err := fmt.Fprintln(p.Out, terminal.Visible(text)); err != nil || !c.Bool("verify") {
		return err
	}
	v, err := p.verifyStored(c, left, dir)
	if err != nil {
		return err
	}
	return p.printVerified(c, *v)
}

func (p commands) saveStored(c *cli.Context, left *storedFiles, root *os.Root, name, stored string) error {
	return saveNew(root, name, func(w io.Writer) error { return p.copyStored(c, left, stored, w) })
}

// saveNew creates a file in root. If write fails, it is removed.
func saveNew(root *os.Root, name string, write func(io.Writer) error) error {
	local, err := filepath.Localize(name)
	if err != nil {
		return exit.Fail("fetch it by its NAME with --out FILE", "%s is not a valid file name here", terminal.Visible(name))
	}
	parts := strings.Split(name, "/")
	dir, err := hostfs.OpenBelow(root, parts[:len(parts)-1]...)
	if err != nil {
		return exit.Fail("name another directory", "make the directory of %s: %v", terminal.Visible(local), err)
	}
	defer dir.Close()
	base := filepath.Base(local)
	f, err := dir.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exit.Fail("name a directory without it", "%s already exists", terminal.Visible(local))
	}
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, dir.Remove(base))
	}
	return nil
}

// verifyStored compares the files in a directory with the run's receipt, which one of our keys must have signed.
func (p commands) verifyStored(c *cli.Context, left *storedFiles, dir string) (*verification, error) {
	v := &verification{What: "receipt", Problems: []signer.Problem{}}
	trust, err := trustedKeys(c)
	if err != nil {
		return nil, err
	}
	text, err := receiptOf(c, left.ID)
	if err != nil {
		v.addUnreadable(signer.ReceiptName, err)
		return v, nil
	}
	proof, problems := signer.VerifyReceipt(text, trust)
	if v.addProblems(problems...); len(problems) > 0 {
		return v, nil
	}
	v.good = "the receipt of run " + left.ID + " is as it was signed"
	if _, err := os.Stat(dir); err == nil || len(proof.Artifacts) > 0 {
		v.compareFiles(proof, "files", signer.Directory{Path: dir, AllowExtra: true})
	} else {
		v.Files = new(int)
		v.good += ", and 0 files with it"
	}
	v.OK = len(v.Problems) == 0
	return v, nil
}
