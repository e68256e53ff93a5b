package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/auditrows"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

func (p commands) auditCheckpointCommand() *cli.Command {
	return &cli.Command{
		Name:      "checkpoint",
		Usage:     "print a signed checkpoint of the log, to keep elsewhere",
		UsageText: "sandboxmcp audit checkpoint [--push] [--to PLACE]... [--out FILE]",
		Description: `A checkpoint is a short text (C2SP tlog-checkpoint) that covers all rows so far. A copy that the owner of this
machine can't change proves later that no earlier row was changed, removed or cut off.

--push pushes it to the places in the setting audit.push, or in --to. PLACE is
  /mnt/kept/log.note       a file, on a disk or share of another machine
  git:REMOTE#BRANCH        the file "checkpoint" in a branch, a commit each time; the branch is "checkpoints" if none is named
  https://HOST/PREFIX#KEY  a witness (C2SP tlog-witness), with its key, as NAME+HASH+KEY; its signature is printed, too
A log that does not continue the checkpoint at a place is not pushed there. With audit.push, a server pushes in the
background as runs end, and sandboxmcp run before it exits; audit verify compares the log with each place.

Examples:
  sandboxmcp audit checkpoint --out monday.note
  sandboxmcp audit checkpoint --push --to git:git@example.com:ops/kept.git`,
		Flags: []cli.Flag{command.OutFlag(),
			&cli.BoolFlag{Name: "push", Usage: "push it to the places in audit.push"},
			&cli.StringSliceFlag{Name: "to", Usage: "push it only to `PLACE` (may be given more than once)"},
		},
		Action: command.NoWords(func(c *cli.Context) error {
			return wiring.WithSignedLog(c, func(ctx context.Context, log *audit.Log) error {
				note, err := log.Checkpoint(ctx)
				if err != nil {
					return err
				}
				signatures, err := p.pushNow(ctx, c, log)
				return errors.Join(p.writeVerbatim(c, append(note, signatures...)), err)
			})
		}),
	}
}

func (p commands) auditProofCommand() *cli.Command {
	return &cli.Command{
		Name:      "proof",
		Usage:     "prove that a row is in the log, to anyone with the public key",
		UsageText: "sandboxmcp audit proof ID [--out FILE]",
		Description: `ID is a run or the number of a row. The proof (C2SP tlog-proof) has the row, its place in the tree of all rows,
and a signed checkpoint. Verify it on any machine with sandboxmcp audit verify --proof FILE --key KEY.

Example: sandboxmcp audit proof 17 --out row17.proof`,
		Flags: []cli.Flag{command.OutFlag()},
		Action: func(c *cli.Context) error {
			return p.printForRun(c, wiring.WithSignedLog, func(ctx context.Context, log *audit.Log, id string) ([]byte, error) {
				return log.Proof(ctx, id)
			})
		},
	}
}

func (p commands) auditReceiptCommand() *cli.Command {
	return &cli.Command{
		Name:      "receipt",
		Usage:     "print the signed receipt of a run",
		UsageText: "sandboxmcp audit receipt ID [--out FILE]",
		Description: `The receipt is an in-toto statement in a DSSE envelope. Verify it with sandboxmcp verify --receipt.

Example: sandboxmcp audit receipt 01K9ZB5W7Q3M8Y2D4F6H8J0K2M --out receipt.intoto.json`,
		Flags: []cli.Flag{command.OutFlag()},
		Action: func(c *cli.Context) error {
			return p.printForRun(c, wiring.WithLog, func(ctx context.Context, log *audit.Log, id string) ([]byte, error) {
				return log.Receipt(ctx, id)
			})
		},
	}
}

// printForRun prints the proof or receipt of the run or row that the command line names.
func (p commands) printForRun(c *cli.Context, with func(*cli.Context, func(context.Context, *audit.Log) error) error,
	get func(context.Context, *audit.Log, string) ([]byte, error)) error {
	if c.NArg() != 1 {
		return exit.Usage("sandboxmcp audit --limit 10", "%s needs the id of one run", c.Command.Name)
	}
	return with(c, func(ctx context.Context, log *audit.Log) error {
		text, err := get(ctx, log, strings.ToUpper(c.Args().First()))
		if err != nil {
			return exit.Fail("sandboxmcp audit --limit 10", "%v", err)
		}
		return p.writeVerbatim(c, text)
	})
}

// isTerminalOutput reports whether the output of --out goes to a terminal.
func (p commands) isTerminalOutput(c *cli.Context) bool {
	return (c.String("out") == "" || c.String("out") == "-") && terminal.IsTerminal(p.Out)
}

// writeVerbatim writes a text that others verify byte for byte. On a terminal it escapes control characters.
func (p commands) writeVerbatim(c *cli.Context, text []byte) error {
	if !strings.HasSuffix(string(text), "\n") {
		text = append(text, '\n')
	}
	return p.WriteOut(c.String("out"), func(w io.Writer) error {
		if p.isTerminalOutput(c) {
			text = []byte(terminal.VisibleLines(string(text)))
		}
		_, err := w.Write(text)
		return err
	})
}

// checkProof verifies a proof without the log.
func checkProof(file string, keys []checkpoint.Key) (*audit.Proven, error) {
	text, err := statefile.ReadSmall(file, maxSmall)
	if err != nil {
		return nil, fmt.Errorf("read the proof: %w", err)
	}
	proven, err := audit.CheckProof(text, keys)
	switch {
	case errors.Is(err, audit.ErrNoProof):
		return nil, exit.Usage("--proof FILE, with what sandboxmcp audit proof printed", "%s: %v", file, audit.ErrNoProof)
	case len(keys) == 0:
		return nil, unknownKeyError("a proof is worth what its signature is")
	case err != nil:
		return nil, exit.Fail("--key FILE, if another machine made it", "%v", err)
	}
	return &proven, nil
}

// printProof prints the row that a proof proves. err is the error of the verification.
func (p commands) printProof(c *cli.Context, proven *audit.Proven, err error) error {
	if c.Bool("json") {
		return p.printJSON(struct {
			auditVerdict
			*audit.Proven
		}{newVerdict(err), proven}, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "ok: row %d is in the log %s, among %s\n", proven.Row.Seq, terminal.Visible(proven.Origin),
		terminal.Count(int(proven.Size), "row"))
	return errors.Join(err, auditrows.WriteFacts(p.Out, []audit.Row{proven.Row}))
}

// pushNow pushes the newest checkpoint if --push was typed.
func (p commands) pushNow(ctx context.Context, c *cli.Context, log *audit.Log) ([]byte, error) {
	if !c.Bool("push") {
		if c.IsSet("to") {
			return nil, exit.Usage("sandboxmcp audit checkpoint --push --to PLACE", "--to needs --push")
		}
		return nil, nil
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil, err
	}
	to, err := wiring.PushPlaces(cfg, c.StringSlice("to")...)
	if err != nil {
		return nil, err
	}
	if len(to) == 0 {
		return nil, exit.Usage("sandboxmcp audit checkpoint --push --to PLACE", "no place to push to: name one with --to, or in audit.push")
	}
	signatures, err := wiring.Push(ctx, cfg, log, to)
	if err != nil {
		return signatures, exit.Fail("sandboxmcp audit verify, and keep a copy of the log as it is now if it is not the place's fault", "%v", err)
	}
	for _, place := range to {
		p.Messagef("pushed to %s", terminal.Visible(place.Name))
	}
	return signatures, nil
}
