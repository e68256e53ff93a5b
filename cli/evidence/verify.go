package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

func (p commands) verifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "verify a file, a directory of artifacts or a receipt, offline",
		UsageText: `sandboxmcp verify FILE SHA256
sandboxmcp verify --manifest SHA256SUMS [DIR]
sandboxmcp verify --receipt RECEIPT [--key KEY] [--tree DIR] [DIR|FILE]`,
		Description: `The exit code is 0 if everything matches, 1 if not, and 2 for a usage error.

A receipt is verified with the keys of this machine: the current one and its predecessors, each of which signed its
successor. A receipt signed by one of them is also compared with the row of its run in the log. With --key, only the
named keys count. KEY is the PEM file of "sandboxmcp key export", a directory of such files, or, in addition to a key, the
.next file of its rotation, or its .revoked file. A key counts until it was replaced or revoked.

Without DIR, the files beside a receipt.intoto.json are verified with it. FILE is found in the receipt by its hash, or, if
the receipt does not list all files, in the SHA256SUMS beside it.

To verify the log, its proofs and checkpoints, use sandboxmcp audit verify.

Examples:
  sandboxmcp verify output.csv 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
  sandboxmcp verify --manifest out/SHA256SUMS
  sandboxmcp verify --receipt out/receipt.intoto.json --key signer.pub`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "manifest", Usage: "verify the files in the list `SHA256SUMS`; - is standard input"},
			&cli.StringFlag{Name: "receipt", Usage: "verify the `RECEIPT` of a run; - is standard input"},
			&cli.StringFlag{Name: "tree", Usage: "compare the directory `DIR` with the receipt's change set: each path as the run left it"},
			keyFlag(),
			&cli.BoolFlag{Name: "loose", Usage: "accept files without a checksum"},
			command.JSONFlag(),
		},
		Action: p.verify,
	}
}

// verification is the output of verify.
type verification struct {
	OK       bool             `json:"ok"`
	What     string           `json:"what"` // file, manifest or receipt
	Problems []signer.Problem `json:"problems"`
	Files    *int             `json:"files,omitempty"` // number of files compared; nil if there were none to compare
	Receipt  *receiptFacts    `json:"receipt,omitempty"`

	good, hint string // for people
	unchecked  int    // number of problems that only mean that something could not be checked
}

// addProblems adds problems.
func (v *verification) addProblems(problems ...signer.Problem) {
	v.Problems = append(v.Problems, problems...)
}

// addUnreadable records that a file can't be checked.
func (v *verification) addUnreadable(name string, err error) {
	kind := signer.Unreadable
	if errors.Is(err, fs.ErrNotExist) {
		kind = signer.Missing
	}
	if inner := errors.Unwrap(err); inner != nil { // the error would repeat the name
		err = inner
	}
	v.addUndecided(signer.Problem{Kind: kind, Name: name, Why: err.Error()})
}

// addUndecided records a problem that leaves the result open.
func (v *verification) addUndecided(problem signer.Problem) {
	v.addProblems(problem)
	v.unchecked++
}

// verdict returns the result in one sentence.
func (v *verification) verdict() string {
	n := len(v.Problems)
	switch {
	case v.unchecked < n:
		return fmt.Sprintf("the %s does not match: %s", v.What, terminal.Count(n, "problem"))
	case v.Receipt != nil:
		return "the receipt is good, but the files could not be checked"
	}
	return fmt.Sprintf("the %s could not be checked", v.What)
}

func (p commands) verify(c *cli.Context) error {
	set := setFlags(c, "manifest", "receipt")
	if len(set) > 1 {
		return exit.Usage("sandboxmcp verify --help", "--%s and --%s are checked one at a time", set[0], set[1])
	}
	checked := strings.Join(set, "")
	if checked != "receipt" && c.IsSet("tree") {
		return exit.Usage("sandboxmcp verify --receipt RECEIPT --tree DIR", "--tree is compared with a receipt")
	}
	if checked != "receipt" && c.IsSet("key") {
		return exit.Usage("sandboxmcp verify --receipt RECEIPT --key KEY", "--key needs --receipt: only receipts are signed")
	}
	if checked == "" && c.Bool("loose") || checked != "" && c.NArg() > 1 {
		return exit.Usage("sandboxmcp verify --help", "verify takes a FILE and its SHA256, or --manifest or --receipt with one directory")
	}
	v := verification{Problems: []signer.Problem{}}
	var err error
	switch checked {
	case "manifest":
		v.What = checked
		p.verifyManifest(c, &v)
	case "receipt":
		v.What = checked
		err = p.verifyReceipt(c, &v)
	default:
		v.What = "file"
		err = p.verifyFile(c, &v)
	}
	if err != nil {
		return err
	}
	return p.printVerified(c, v)
}

func (p commands) printVerified(c *cli.Context, v verification) error {
	v.OK = len(v.Problems) == 0
	var b strings.Builder
	if v.OK {
		fmt.Fprintf(&b, "ok: %s\n", terminal.Visible(v.good))
	}
	for _, problem := range v.Problems {
		fmt.Fprintln(&b, terminal.Visible(problem.String()))
	}
	if v.Receipt != nil {
		v.Receipt.writeText(&b)
	}
	if err := p.Printf(c, v, "%s", b.String()); err != nil || v.OK || c.Bool("json") {
		return exit.UnlessOK(v.OK, err)
	}
	return exit.Fail(v.hint, "%s", v.verdict())
}

func (p commands) verifyFile(c *cli.Context, v *verification) error {
	const example = "sandboxmcp verify FILE SHA256"
	if c.NArg() != 2 {
		return exit.Usage(example, "verify needs a FILE and its SHA256, or --manifest or --receipt")
	}
	file := c.Args().First()
	want, err := signer.ParseHash(c.Args().Get(1))
	if err != nil {
		if _, swapped := signer.ParseHash(file); swapped == nil {
			return exit.Usage(fmt.Sprintf("sandboxmcp verify %s %s", c.Args().Get(1), file), "the file comes first, and then its SHA-256")
		}
		return exit.Usage(example, "%v", err)
	}
	got, err := p.hashFile(file)
	switch {
	case err != nil:
		v.addUnreadable(file, err)
		if info, statErr := os.Stat(file); statErr == nil && info.IsDir() {
			v.hint = "sandboxmcp verify --manifest " + filepath.Join(file, "SHA256SUMS")
		}
	case got != want:
		v.addProblems(signer.Problem{Kind: signer.Changed, Name: file, Why: "its SHA-256 does not match", Want: want, Got: got})
	}
	v.good = fmt.Sprintf("%s has the SHA-256 %s", file, want)
	return nil
}

func (p commands) hashFile(file string) (string, error) {
	r, err := p.OpenInput(file)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return signer.Hash(r)
}

func (p commands) verifyManifest(c *cli.Context, v *verification) {
	list := c.String("manifest")
	r, err := p.OpenInput(list)
	if err != nil {
		v.addUnreadable(list, err)
		return
	}
	defer r.Close()
	dir := cmp.Or(c.Args().First(), filepath.Dir(list))
	files, problems, err := signer.VerifyManifest(r, comparedDir(c, dir, list))
	v.addProblems(problems...)
	if err != nil {
		v.addUnreadable(dir, err)
	}
	v.Files = &files
	v.good = fmt.Sprintf("%s in %s, as listed", terminal.Count(files, "file"), dir)
}

// comparedDir returns the directory whose files are compared, without the files that the command line names.
func comparedDir(c *cli.Context, dir string, besides ...string) signer.Directory {
	d := signer.Directory{Path: dir, AllowExtra: c.Bool("loose")}
	for _, file := range append(besides, c.StringSlice("key")...) {
		if name, err := relativeName(dir, file); err == nil {
			d.AllowedNames = append(d.AllowedNames, name)
		}
	}
	return d
}

// relativeName returns the name of a file relative to a directory, also outside of it, where it matches no file in the
// directory.
func relativeName(dir, file string) (string, error) {
	base, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	name, err := filepath.Rel(base, file)
	return filepath.ToSlash(name), err
}
