package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

func (p *program) auditVerifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "check that nobody has changed the log; the exit code is 1 if somebody has",
		UsageText: `sandboxmcp audit verify [--checkpoint FILE]... [--key KEY]... [--json]
sandboxmcp audit verify --proof FILE [--key KEY]... [--json]
sandboxmcp audit verify --segment FILE [--key KEY]... [--json]`,
		Description: `The whole log is checked: each row, each receipt beside it, the checkpoints and the sealed segments. With a
checkpoint that was kept elsewhere, it shows, too, when rows were cut off the end, or an older copy was put back.
A proof and a segment are checked alone, without the log, on any machine that has the public key.

Example: sandboxmcp audit verify --checkpoint /mnt/kept/monday.note`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "checkpoint", Usage: "compare the log with a checkpoint in `FILE` (may be given more than once)"},
			&cli.StringFlag{Name: "proof", Usage: "check the proof in `FILE` instead of the log"},
			&cli.StringFlag{Name: "segment", Usage: "check the sealed segment `FILE` instead of the log"},
			keyFlag(), jsonFlag(),
		},
		Action: p.auditVerify,
	}
}

func (p *program) auditVerify(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	if set := given(c, "checkpoint", "proof", "segment"); len(set) > 1 {
		return usage("sandboxmcp audit verify --help", "--%s and --%s are checked one at a time", set[0], set[1])
	}
	keys, err := p.logKeys(c)
	if err != nil {
		return err
	}
	switch {
	case c.IsSet("proof"):
		return p.verifyProof(c, keys)
	case c.IsSet("segment"):
		report, err := audit.VerifySegment(c.String("segment"), keys)
		if err != nil {
			return err
		}
		return p.tellReport(c, report, "the segment")
	}
	options := audit.VerifyOptions{Keys: keys}
	for _, file := range c.StringSlice("checkpoint") {
		note, err := readSmall(file)
		if err != nil {
			return fmt.Errorf("read the checkpoint: %w", err)
		}
		options.Checkpoints = append(options.Checkpoints, note)
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		report, err := log.Verify(ctx, options)
		if err != nil {
			return err
		}
		return p.tellReport(c, report, "the log")
	})
}

// given are those of the named flags that are set.
func given(c *cli.Context, names ...string) (set []string) {
	for _, name := range names {
		if c.IsSet(name) {
			set = append(set, name)
		}
	}
	return set
}

// logKeys are the keys that may have signed the log: those of --key, or else those of this machine.
func (p *program) logKeys(c *cli.Context) (keys []ed25519.PublicKey, err error) {
	trust, err := p.trusted(c)
	if err != nil {
		return nil, err
	}
	for _, k := range trust.Keys() {
		keys = append(keys, k.Ed25519())
	}
	return keys, nil
}

// maxSmall is more than a checkpoint or a proof can be: a row has at most 1 MiB of data.
const maxSmall = 16 << 20

// readSmall reads a file that somebody has named, and that may be anything.
func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(text) > maxSmall {
		err = &fs.PathError{Op: "read", Path: file, Err: errors.New("it is too large to be one")}
	}
	return text, err
}

// tellReport says what was found about the log or one of its segments.
func (p *program) tellReport(c *cli.Context, r audit.Report, what string) error {
	if c.Bool("json") {
		if err := writeJSON(p.stdout, r); err != nil {
			return err
		}
	} else if r.Bad == nil {
		if err := p.tellGood(r); err != nil {
			return err
		}
	}
	if r.Bad == nil {
		return nil
	}
	const hint = "keep a copy of it as it is now: it is evidence"
	if r.Bad.Seq == 0 {
		return fail(hint, "%s is not in order: %s (the hashes of %s are)", what, r.Bad.Why, count(int(r.Rows), "row"))
	}
	return fail(hint, "row %d is not as it was written: %s (%s before it are good)", r.Bad.Seq, r.Bad.Why, count(int(r.Rows), "row"))
}

// tellGood says what is known of a log of which nothing is wrong.
func (p *program) tellGood(r audit.Report) error {
	lines := []string{fmt.Sprintf("ok: %s, head %s", count(int(r.Rows), "row"), r.Head)}
	switch point := r.Checkpoint; {
	case point == nil && r.Rows > 0:
		lines = append(lines, "not signed: there is no checkpoint; sandboxmcp audit checkpoint makes one")
	case point == nil:
	case !point.Signed:
		lines = append(lines, fmt.Sprintf("the checkpoint of %s is there, but it is not known who signed it: name the key with --key", count(int(point.Size), "row")))
	default:
		lines = append(lines, fmt.Sprintf("signed: %s, root %s%s", count(int(point.Size), "row"), point.Root, dated(point.Time)))
	}
	if r.Checkpoint != nil && r.Unsigned > 0 {
		lines = append(lines, fmt.Sprintf("%s after it not signed yet", plural(r.Unsigned)))
	}
	for _, s := range r.Segments {
		lines = append(lines, fmt.Sprintf("sealed: rows %d to %d in %s%s", s.First, s.Last, s.File, absent(s.Here)))
	}
	for i, line := range append(lines, r.Remarks...) {
		if i > 0 {
			line = "    " + line
		}
		if _, err := fmt.Fprintln(p.stdout, visible(line)); err != nil {
			return err
		}
	}
	return nil
}

func absent(here bool) string {
	if here {
		return ""
	}
	return ", which is not there"
}

func plural(n int64) string {
	if n == 1 {
		return "1 row is"
	}
	return fmt.Sprintf("%d rows are", n)
}

func dated(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", " + t.Local().Format(time.RFC3339)
}
