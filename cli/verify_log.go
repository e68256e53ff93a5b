package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// maxApart is how far the end that a receipt tells may be from the time of its row, which is written right after it: longer than
// the longest wait for the log.
const maxApart = time.Minute

// compareLog compares a receipt with the row of its run, if this machine's log is the one that has it. Whoever has a key can
// date a receipt as they like, and cannot put a row into the log among those of that time.
func compareLog(c *cli.Context, own own, text []byte, proof signer.Proof, v *verification) {
	cfg, _ := load(c) // it could be loaded, if a key is ours
	_, ours := own.Find(proof.Key.ID())
	_, err := os.Stat(cfg.SQLitePath)
	there := err == nil
	switch {
	case ours && there:
		err = withLog(c, func(ctx context.Context, log *audit.Log) error {
			row, logged, err := log.Ended(ctx, proof.Run)
			compareRow(row, logged, err, text, proof, v)
			return nil
		})
		if err != nil {
			v.cannot(cfg.SQLitePath, err)
		}
	case ours && !errors.Is(err, fs.ErrNotExist):
		v.cannot(cfg.SQLitePath, err)
	case ours:
		v.Receipt.log = "not here: " + cfg.SQLitePath
	default:
		v.Receipt.log = "not compared: the key is not this machine's"
	}
	if !proof.Key.Revoked.IsZero() && !v.Receipt.Logged {
		v.unknown(signer.Problem{Kind: signer.BadKey, Why: fmt.Sprintf(
			"the key %s. Whoever has it can date a receipt before that: only its row in the log where it was made tells", proof.Key.Revocation())})
	}
}

// compareRow compares a receipt with what the log has of its run.
func compareRow(row audit.Row, logged []byte, err error, text []byte, proof signer.Proof, v *verification) {
	if err != nil {
		v.Receipt.log = "has no receipt of this run"
		problem := signer.Problem{Kind: signer.BadLog, Why: err.Error()}
		if !errors.Is(err, audit.ErrNoReceipt) {
			v.Receipt.log = "not compared"
			v.unknown(problem)
			return
		}
		problem.Why = "the log of this machine has no receipt of run " + proof.Run + ", and a key of this machine signed this one"
		v.hint = "--db FILE, if the run is in another log of this machine"
		v.bad(problem)
		return
	}
	v.Receipt.log = fmt.Sprintf("row %d, at %s", row.Seq, row.Time.Format(time.RFC3339))
	ours, err := signer.ParseEnvelope(logged)
	theirs, theirErr := signer.ParseEnvelope(text)
	switch apart := row.Time.Sub(proof.Finished).Abs(); {
	case err != nil || theirErr != nil || !bytes.Equal(ours.Payload, theirs.Payload):
		v.bad(signer.Problem{Kind: signer.BadLog, Why: fmt.Sprintf("row %d of the log came with another receipt of this run", row.Seq)})
	case apart > maxApart:
		v.bad(signer.Problem{Kind: signer.BadLog, Why: fmt.Sprintf("it says that the run ended at %s, and its row %d was written at %s",
			proof.Finished.Format(time.RFC3339), row.Seq, row.Time.Format(time.RFC3339))})
	default:
		v.Receipt.Logged = true
	}
}
