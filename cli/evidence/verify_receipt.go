package evidence

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// receiptFacts is the content of a receipt with a known signer.
type receiptFacts struct {
	signer.Receipt
	Artifacts []receiptFile `json:"artifacts"`
	Logged    bool          `json:"logged"`                   // the run's end row in this machine's log contains it
	SignedBy  string        `json:"signed_by"`                // the key's id
	AlsoBy    []string      `json:"also_signed_by,omitempty"` // claimed signers that are unknown here
	checked   string        // the compared files, for people
	log       string        // result of the comparison with the log, for people
	replaced  string        // when the key was replaced, for people
}

type receiptFile struct {
	fileName
	SHA256 string `json:"sha256"`
}

func (p commands) verifyReceipt(c *cli.Context, v *verification) error {
	trust, err := trustedKeys(c)
	if err != nil {
		return err
	}
	own, err := loadMachineKeys(c)
	if err != nil { // then --key names other keys
		own.Trust = signer.NewTrust()
	}
	file := c.String("receipt")
	text, err := p.readReceipt(file)
	if err != nil {
		v.addUnreadable(file, err)
		return nil
	}
	proof, problems := signer.VerifyReceipt(text, trust)
	if len(problems) > 0 {
		v.addProblems(problems...)
		if problems[0].Kind == signer.BadKey {
			v.hint = keyHint(own)
		}
		return nil
	}
	v.Receipt = newReceiptFacts(proof)
	compareLog(c, own, text, proof, v)
	v.good = "the receipt of run " + proof.Run + " is as it was signed"
	if dir := c.String("tree"); dir != "" {
		v.compareTree(c.Context, proof, dir)
	}
	beside := c.Args().First()
	if beside == "" && filepath.Base(file) == signer.ReceiptName {
		beside = filepath.Dir(file)
	}
	switch info, err := os.Stat(beside); {
	case beside == "":
		v.Receipt.checked = "not compared: name their directory"
	case beside != "-" && err == nil && info.IsDir():
		v.Receipt.checked = fmt.Sprintf("compared with those in %s", beside)
		v.compareFiles(proof, beside, comparedDir(c, beside, file))
	default:
		p.verifyOne(beside, filepath.Dir(file), proof, v)
	}
	return nil
}

// compareTree compares the paths of the receipt's change set with a directory: those that are held back may also be as
// they were before.
func (v *verification) compareTree(ctx context.Context, proof signer.Proof, dir string) {
	if proof.Changes == nil {
		v.addUndecided(signer.Problem{Kind: signer.Missing, Name: dir, Why: "the receipt has no change set"})
		return
	}
	var after, before []changes.Entry
	held := map[string]bool{}
	for _, c := range proof.Changes.Changes {
		e := changes.Entry{Path: c.Name(), Before: changes.State(c.Before), After: changes.State(c.After)}
		if c.Refused {
			continue
		}
		after = append(after, e)
		if c.Held {
			before, held[e.Path] = append(before, e), true
		}
	}
	abs, err := hostfs.Resolve(dir)
	if err != nil {
		v.addUnreadable(dir, err)
		return
	}
	different, err := changes.Verify(ctx, after, abs, false)
	if err == nil && len(before) > 0 {
		var alsoBefore []changes.Conflict
		alsoBefore, err = changes.Verify(ctx, before, abs, true)
		for _, c := range alsoBefore {
			delete(held, c.Path)
		}
	}
	if err != nil {
		v.addUnreadable(dir, err)
		return
	}
	for _, c := range different {
		if !held[c.Path] {
			v.addProblems(signer.Problem{Kind: signer.Changed, Name: c.Path, Why: c.Why})
		}
	}
	if n := proof.Changes.Unlisted; n > 0 {
		v.addUndecided(signer.Problem{Kind: signer.BadList, Name: dir, Why: fmt.Sprintf("the receipt does not list %s",
			terminal.Count(n, "path"))})
	}
	v.good += fmt.Sprintf(", and %s of %s with it", terminal.Count(len(after), "path"), dir)
}

// compareFiles compares the files in a directory, called name in messages, with a receipt.
func (v *verification) compareFiles(proof signer.Proof, name string, d signer.Directory) {
	problems, err := proof.VerifyDirectory(d)
	v.addProblems(problems...)
	if err != nil {
		v.addUnreadable(name, err)
	}
	all, _ := proof.ArtifactSums(d.Path)
	n := len(all)
	v.Files = &n
	v.good += fmt.Sprintf(", and %s with it", terminal.Count(n, "file"))
}

// verifyOne looks for one file in a receipt of the directory dir.
func (p commands) verifyOne(file, dir string, proof signer.Proof, v *verification) {
	got, err := p.hashFile(file)
	if err != nil {
		v.addUnreadable(file, err)
		return
	}
	all, whole := proof.ArtifactSums(dir)
	what, n := proof.PartWithHash(got, all), 1
	v.Files = &n
	switch {
	case what == "" && !whole:
		v.addUndecided(signer.Problem{Kind: signer.BadList, Name: file, Why: fmt.Sprintf(
			"not among the %s that the receipt names; %d more are in SHA256SUMS, which is not beside the receipt as it was signed",
			terminal.Count(len(all), "file"), proof.ArtifactsUnlisted)})
		return
	case what == "":
		v.addProblems(signer.Problem{Kind: signer.Changed, Name: file, Why: "the receipt says nothing about a file with the SHA-256 " + got})
		return
	}
	v.Receipt.checked = fmt.Sprintf("%s is %s", file, what)
	v.good += ", and " + v.Receipt.checked
}

// trustedKeys returns the keys for verification: those of the command line, or else of the state directory.
func trustedKeys(c *cli.Context) (*signer.Trust, error) {
	if paths := c.StringSlice("key"); len(paths) > 0 {
		trust, err := signer.ReadTrust(paths...)
		if err != nil {
			return nil, exit.Usage("--key FILE, with the public key that sandboxmcp key export prints", "%v", err)
		}
		return trust, nil
	}
	own, err := loadMachineKeys(c)
	return own.Trust, err
}

// machineKeys are the keys of this machine: the trusted ones, and files with others.
type machineKeys struct {
	*signer.Trust
	strangers []string
}

func loadMachineKeys(c *cli.Context) (machineKeys, error) {
	_, keys, err := wiring.LoadKeys(c)
	if err != nil {
		return machineKeys{}, err
	}
	o := machineKeys{}
	if o.Trust, err = keys.Trust(); err == nil {
		o.strangers, err = keys.UntrustedFiles(o.Trust)
	}
	return o, err
}

// keyHint explains how to trust a key.
func keyHint(o machineKeys) string {
	if len(o.strangers) > 0 {
		return fmt.Sprintf("--key FILE, with the public key of who signed it. Nothing introduces the key in %s: a key that was lost, or that "+
			"somebody put there. Name it if it is yours", o.strangers[0])
	}
	return "--key FILE, with the public key that sandboxmcp key export prints where it was signed"
}

func (p commands) readReceipt(file string) ([]byte, error) {
	r, err := p.OpenInput(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, signer.MaxEnvelope+1))
}

func newReceiptFacts(proof signer.Proof) *receiptFacts {
	x := &receiptFacts{Receipt: proof.Receipt, Artifacts: []receiptFile{}, SignedBy: proof.Key.ID(), AlsoBy: proof.Strangers}
	if at := proof.Key.Replaced; !at.IsZero() {
		x.replaced = ", which was replaced at " + at.Format(time.RFC3339)
	}
	for _, a := range proof.Artifacts {
		x.Artifacts = append(x.Artifacts, receiptFile{fileNameOf(a.Name), a.SHA256})
	}
	return x
}

// writeText prints the facts of a receipt, a line each.
func (x *receiptFacts) writeText(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, terminal.Visible(fmt.Sprintf(format, args...)))
	}
	line("run", "%s, namespace %s", x.Run, x.Namespace)
	line("script", "%s, %s, SHA-256 %s", x.Name, x.Language, x.CodeSHA256)
	line("ended", "%s", x.howEnded())
	line("time", "%s, for %v", x.Began.Format(time.RFC3339), x.Finished.Sub(x.Began).Round(time.Millisecond))
	line("contained", "%s, profile %s: %s", x.Backend, x.Profile, cmp.Or(strings.Join(x.Layers, ", "), "by nothing"))
	if len(x.MissingLayers) > 0 {
		line("missing", "%s", strings.Join(x.MissingLayers, ", "))
	}
	line("secrets", "%s", cmp.Or(strings.Join(x.Secrets, ", "), "none"))
	line("network", "%s", x.listContacts())
	line("files", "%s; %s", x.countFiles(), x.checked)
	if x.Changes != nil {
		line("changes", "%s of %s", terminal.Count(len(x.Changes.Changes)+x.Changes.Unlisted, "path"), x.Changes.Directory)
	}
	line("signed by", "%s%s", x.SignedBy, x.replaced)
	line("log", "%s", x.log)
	if len(x.AlsoBy) > 0 {
		line("", "and, as it says, by keys that are not known: %s", strings.Join(x.AlsoBy, ", "))
	}
	_ = t.Flush() // w is a strings.Builder
}

func (x *receiptFacts) howEnded() string {
	text := fmt.Sprintf("%s, exit code %d", x.Ended, x.ExitCode)
	if x.Signal != "" {
		text += ", " + x.Signal
	}
	if x.Limit != "" {
		text += ", limit " + x.Limit
	}
	return text
}

// countFiles returns the number of artifacts, and how many of them the receipt lists.
func (x *receiptFacts) countFiles() string {
	text := terminal.Count(len(x.Artifacts)+x.ArtifactsUnlisted, "artifact")
	if x.ArtifactsUnlisted > 0 {
		text += fmt.Sprintf(" (%d named here, %d more in SHA256SUMS)", len(x.Artifacts), x.ArtifactsUnlisted)
	}
	if n := len(x.ArtifactsWithheld) + x.WithheldUnlisted; n > 0 {
		text += fmt.Sprintf(", and %d withheld", n)
	}
	return text
}

// listContacts returns the first names that the run requested.
func (x *receiptFacts) listContacts() string {
	const max = 20
	var all []string
	for _, e := range x.Egress[:min(len(x.Egress), max)] {
		verb := "denied"
		if e.Allowed {
			verb = "allowed"
		}
		name := e.Name
		if e.Port != 0 {
			name += fmt.Sprintf(":%d", e.Port)
		}
		all = append(all, name+" "+verb)
	}
	if n := len(x.Egress) + x.EgressUnlisted - len(all); n > 0 {
		all = append(all, fmt.Sprintf("and %d more", n))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// maxClockSkew bounds the time between a run's end in its receipt and in its row, which is written right after it: longer
// than the longest wait for the log.
const maxClockSkew = time.Minute

// compareLog compares a receipt with the row of its run, if this machine's log should have it. The holder of a key can
// backdate a receipt, but can't insert a row into the log.
func compareLog(c *cli.Context, own machineKeys, text []byte, proof signer.Proof, v *verification) {
	cfg, _ := wiring.Load(c) // it loaded before if a key is ours
	_, ours := own.KeyByID(proof.Key.ID())
	files, err := audit.Files(cfg.SQLitePath)
	switch {
	case ours && len(files) > 0:
		err = wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
			row, logged, err := log.RowWithReceipt(ctx, proof.Run)
			compareRow(row, logged, err, text, proof, v)
			return nil
		})
		if err != nil {
			v.addUnreadable(cfg.SQLitePath, err)
		}
	case ours && err != nil:
		v.addUnreadable(cfg.SQLitePath, err)
	case ours:
		v.Receipt.log = "not here: " + cfg.SQLitePath
	default:
		v.Receipt.log = "not compared: the key is not this machine's"
	}
	if !proof.Key.Revoked.IsZero() && !v.Receipt.Logged {
		v.addUndecided(signer.Problem{Kind: signer.BadKey, Why: fmt.Sprintf(
			"the key %s. Whoever has it can date a receipt before that: only its row in the log where it was made tells", proof.Key.Revocation())})
	}
}

// compareRow compares a receipt with its run's row in the log.
func compareRow(row audit.Row, logged []byte, err error, text []byte, proof signer.Proof, v *verification) {
	if err != nil {
		v.Receipt.log = "has no receipt of this run"
		problem := signer.Problem{Kind: signer.BadLog, Why: err.Error()}
		if !errors.Is(err, audit.ErrNoReceipt) {
			v.Receipt.log = "not compared"
			v.addUndecided(problem)
			return
		}
		problem.Why = "the log of this machine has no receipt of run " + proof.Run + ", and a key of this machine signed this one"
		v.hint = "--db FILE, if the run is in another log of this machine"
		v.addProblems(problem)
		return
	}
	v.Receipt.log = fmt.Sprintf("row %d, at %s", row.Seq, row.Time.Format(time.RFC3339))
	ours, err := signer.ParseEnvelope(logged)
	theirs, theirErr := signer.ParseEnvelope(text)
	switch apart := row.Time.Sub(proof.Finished).Abs(); {
	case err != nil || theirErr != nil || !bytes.Equal(ours.Payload, theirs.Payload):
		v.addProblems(signer.Problem{Kind: signer.BadLog, Why: fmt.Sprintf("row %d of the log came with another receipt of this run", row.Seq)})
	case apart > maxClockSkew:
		v.addProblems(signer.Problem{Kind: signer.BadLog, Why: fmt.Sprintf("it says that the run ended at %s, and its row %d was written at %s",
			proof.Finished.Format(time.RFC3339), row.Seq, row.Time.Format(time.RFC3339))})
	default:
		v.Receipt.Logged = true
	}
}
