package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/audit/witness"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

func (p commands) auditVerifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "verify the log; the exit code is 1 if it was changed",
		UsageText: `sandboxmcp audit verify [--checkpoint FILE]... [--key KEY]... [--json] [LOG ...]
sandboxmcp audit verify --proof FILE [--key KEY]... [--json]`,
		Description: `It verifies all files of the log on this machine: each row, its receipt and the checkpoints. With a checkpoint that was
kept elsewhere, it also detects rows cut off the end, and an older copy of the log. A log that is signed according to
its keys or rows, but has no checkpoint, is an error. Rows that were signed late, as after a killed process, are reported.
With the setting audit.push, the log must continue the checkpoint at each place: a restored or rewritten log does not,
and an unreachable place means exit code 1. A witness is asked by pushing to it.
Rows that are unsigned for more than a minute mean exit code 1: they could be cut off unnoticed. The next server or run
signs them, and so does sandboxmcp audit checkpoint.
Acknowledged rows that are missing at the end, because a -wal file was cut, damaged or deleted, are counted, until the next
server or run records them.
Name files of a log that were moved away, the oldest first. A proof is verified without the log, on any machine that has
the public key.

The keys are those of this machine, or of --key. Without any key, signatures prove nothing: anybody could have signed.
The exit code is then 2, as for a file that is not a checkpoint or proof.

Example: sandboxmcp audit verify --checkpoint /mnt/kept/monday.note`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "checkpoint", Usage: "compare the log with a checkpoint in `FILE` (may be given more than once)"},
			&cli.StringFlag{Name: "proof", Usage: "check the proof in `FILE` instead of the log"},
			&cli.BoolFlag{Name: "no-push", Usage: "do not compare it with the checkpoints pushed to audit.push"},
			keyFlag(), command.JSONFlag(),
		},
		Action: p.auditVerify,
	}
}

func (p commands) auditVerify(c *cli.Context) error {
	if set := setFlags(c, "checkpoint", "proof"); len(set) > 1 {
		return exit.Usage("sandboxmcp audit verify --help", "--%s and --%s are checked one at a time", set[0], set[1])
	}
	keys, err := logKeys(c)
	if err != nil {
		return p.printReport(c, nil, err)
	}
	if c.IsSet("proof") && c.NArg() == 0 {
		proven, err := checkProof(c.String("proof"), keys)
		return p.printProof(c, proven, err)
	} else if c.IsSet("proof") {
		return exit.Usage("sandboxmcp audit verify --help", "--proof and files of a log are checked one at a time")
	}
	report, err := checkLog(c, keys)
	return p.printReport(c, report, err)
}

// checkLog verifies the log. The report is nil if the log could not be read.
func checkLog(c *cli.Context, keys []checkpoint.Key) (found *audit.Report, err error) {
	o := audit.VerifyOptions{Keys: keys}
	files := c.StringSlice("checkpoint")
	for _, file := range files {
		note, err := statefile.ReadSmall(file, maxSmall)
		if err != nil {
			return nil, fmt.Errorf("read the checkpoint: %w", err)
		}
		o.Checkpoints, o.Names = append(o.Checkpoints, note), append(o.Names, "")
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil, err
	}
	if c.Bool("no-push") || c.NArg() > 0 {
		cfg.Audit.Push = nil
	}
	ctx, stop := command.UntilSignal(c)
	finish, err := comparePushed(ctx, cfg, &o)
	stop()
	if err != nil {
		return nil, err
	}
	err = withNamedLog(c, func(ctx context.Context, log *audit.Log) error {
		report, err := log.Verify(ctx, o)
		if note, ok := errors.AsType[*audit.NoteError](err); ok {
			if note.Index >= len(files) {
				return checkpointError(strings.TrimPrefix(o.Names[note.Index], "the checkpoint that was pushed to "), note.Err)
			}
			return checkpointError(files[note.Index], note.Err)
		}
		if err != nil {
			return err
		}
		found = &report
		if err := reportError(report, time.Now()); err != nil {
			return err
		}
		return finish(log)
	})
	return found, err
}

// checkpointError returns the error for a file that was passed as a checkpoint and is not one of this log.
func checkpointError(file string, err error) error {
	if errors.Is(err, checkpoint.ErrNotCheckpoint) {
		return exit.Usage("--checkpoint FILE, with what sandboxmcp audit checkpoint printed", "%s is not a signed checkpoint", file)
	}
	return exit.Fail("it is the wrong file, or the log was replaced", "%s cannot be compared with the log: %v", file, err)
}

// reportError converts a report to an error, or nil.
func reportError(r audit.Report, now time.Time) error {
	const hint = "keep a copy of it as it is now: it is evidence"
	switch bad := r.Bad; {
	case bad != nil && bad.Seq == 0:
		return exit.Fail(hint, "the log is not in order: %s (the hashes of %s are)", bad.Why, terminal.Count(int(r.Rows), "row"))
	case bad != nil:
		return exit.Fail(hint, "row %d is not as it was written: %s (%s before it are good)", bad.Seq, bad.Why,
			terminal.Count(int(r.Rows), "row"))
	case r.Checkpoint != nil && !r.Checkpoint.Signed:
		return unknownKeyError("the log fits the checkpoints in it")
	case r.Unsigned > 0 && now.Sub(r.UnsignedSince) > maxUnsigned:
		return exit.Fail("sandboxmcp audit checkpoint, which signs what is there now",
			"%s at the end of the log are not signed, the first of %s: since then rows may have been cut off unnoticed",
			terminal.Count(int(r.Unsigned), "row"), r.UnsignedSince.Local().Format(time.RFC3339))
	}
	return nil
}

// maxUnsigned is the longest time for which rows may stay unsigned while a process writes the log: five seconds, and
// time for a slow disk.
const maxUnsigned = time.Minute

// unknownKeyError returns the error for a signature by an unknown key.
func unknownKeyError(what string) error {
	return exit.Usage("--key FILE, with the public key that sandboxmcp key export prints",
		"%s, but the signer is unknown: no key is known here", what)
}

// setFlags returns those of the named flags that are set.
func setFlags(c *cli.Context, names ...string) (set []string) {
	for _, name := range names {
		if c.IsSet(name) {
			set = append(set, name)
		}
	}
	return set
}

// logKeys returns the keys that may have signed the log: those of --key, or else those of this machine.
func logKeys(c *cli.Context) (keys []checkpoint.Key, err error) {
	trust, err := trustedKeys(c)
	if err != nil {
		return nil, err
	}
	return wiring.CheckpointKeys(trust), nil
}

// maxSmall exceeds the size of any checkpoint or proof: a row has at most 1 MiB of data.
const maxSmall = 16 << 20

// comparePushed adds the pushed checkpoints to those that the log is compared with. A witness is compared by a push,
// which finish does.
func comparePushed(ctx context.Context, cfg config.Config, o *audit.VerifyOptions) (finish func(*audit.Log) error, err error) {
	all, err := wiring.PushPlaces(cfg)
	if err != nil {
		return nil, err
	}
	var ask []witness.Place
	var errs []error
	for _, p := range all {
		note, ok, err := p.Stored(ctx)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok:
			o.Checkpoints, o.Names = append(o.Checkpoints, note), append(o.Names, "the checkpoint that was pushed to "+p.Name)
		default:
			ask = append(ask, p)
		}
	}
	return func(log *audit.Log) error {
		if len(ask) > 0 {
			_, err := wiring.Push(ctx, cfg, log, ask)
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return exit.Fail("--no-push, to check the log without what was pushed",
				"the log is consistent, but could not be compared with what was pushed: %v", err)
		}
		return nil
	}, nil
}

// auditVerdict has the first fields of audit verify --json.
type auditVerdict struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
}

func newVerdict(err error) auditVerdict {
	if err == nil {
		return auditVerdict{OK: true}
	}
	return auditVerdict{Problem: exit.FromError(err).Text}
}

// printJSON prints a report with its problem, and returns the exit code of err.
func (p commands) printJSON(found any, err error) error {
	if failed := terminal.WriteJSON(p.Out, found); failed != nil || err == nil {
		return failed
	}
	return exit.Silent(exit.FromError(err).Code)
}

// printReport prints the report on the log. err is the error of the verification.
func (p commands) printReport(c *cli.Context, r *audit.Report, err error) error {
	if c.Bool("json") {
		return p.printJSON(struct {
			auditVerdict
			*audit.Report
		}{newVerdict(err), r}, err)
	}
	if err != nil {
		return err
	}
	rows := terminal.Count(int(r.Rows), "row")
	if r.Absent > 0 {
		rows = fmt.Sprintf("%s checked, %d not here", rows, r.Absent)
	}
	lines := []string{fmt.Sprintf("ok: %s, head %s", rows, r.Head)}
	switch point := r.Checkpoint; {
	case point != nil:
		dated := ""
		if !point.Time.IsZero() {
			dated = ", " + point.Time.Local().Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("signed: %s, root %s%s", terminal.Count(int(point.Size), "row"), point.Root, dated))
	case r.Rows > 0:
		lines = append(lines, "not signed: there is no checkpoint; sandboxmcp audit checkpoint makes one")
	}
	if r.Checkpoint != nil && r.Unsigned > 0 {
		are := map[bool]string{true: "is", false: "are"}[r.Unsigned == 1]
		lines = append(lines, fmt.Sprintf("%s %s after it not signed yet, the first of %s", terminal.Count(int(r.Unsigned), "row"), are,
			r.UnsignedSince.Local().Format(time.RFC3339)))
	}
	for _, f := range r.Files[:max(0, len(r.Files)-1)] {
		lines = append(lines, fmt.Sprintf("closed: rows %d to %d in %s", f.First, f.Last, f.Path))
	}
	text := ""
	for _, line := range append(lines, r.Remarks...) {
		text += "    " + terminal.Visible(line) + "\n"
	}
	_, err = io.WriteString(p.Out, strings.TrimPrefix(text, "    "))
	return err
}
