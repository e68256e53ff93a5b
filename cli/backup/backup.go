// Package backup implements the commands backup and restore. A backup is one encrypted file that servers need not stop
// for; restore verifies all of it before it puts it in place.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"
	"github.com/oklog/ulid/v2"
	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// Commands returns the commands of this package.
func Commands(s *command.Streams) []*cli.Command {
	p := commands{s}
	return []*cli.Command{p.backupCommand(), p.restoreCommand()}
}

// commands are the actions of this package on the streams of one invocation.
type commands struct{ *command.Streams }

func (p commands) backupCommand() *cli.Command {
	return &cli.Command{
		Name:      "backup",
		Usage:     "write log, keys, vault and results to one encrypted file, while servers run",
		UsageText: "sandboxmcp backup --out FILE --to RECIPIENT [--to RECIPIENT]... [--to-file FILE] [--json]",
		Description: `FILE is encrypted to age recipients (age1...): age-keygen creates a key and prints its recipient. The backup
contains the signing key, and the vault with its key, even if that is in the keyring of the operating system: anyone who
can decrypt it controls this machine's sandboxmcp. Keep the age key elsewhere. Secrets whose values are in the keyring
(vault add --store keyring) are not included.

The backup is a snapshot: it has all rows that were acknowledged before, and no key, token, secret or result without its
row. FILE is written completely, with mode 0600, or not at all, and replaces nothing. A row of the log, state.backed_up,
has its SHA-256 and recipients.

Included:
` + describeParts(true) + `
Not in it, as it can be had again:
` + describeParts(false) + `  the configuration            which is yours to keep

Example: sandboxmcp backup --out /mnt/kept/monday.age --to-file recipients.txt`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write it to the new file `FILE`"},
			&cli.StringSliceFlag{Name: "to", Usage: "encrypt it to the age `RECIPIENT` (may be given more than once)"},
			&cli.StringFlag{Name: "to-file", Usage: "encrypt it to the recipients in `FILE`, one a line"},
			command.JSONFlag(),
		},
		Action: command.NoWords(p.backup),
	}
}

// createdBackup is the output of backup.
type createdBackup struct {
	File    string        `json:"file"`
	Bytes   int64         `json:"bytes"`
	SHA256  string        `json:"sha256"`
	Backup  archiveHeader `json:"backup"`
	Content manifest      `json:"content"`
	Missing []string      `json:"missing"` // secrets that should be in the backup and are not
}

func (p commands) backup(c *cli.Context) error {
	out := c.String("out")
	if out == "" {
		return exit.Usage("--out FILE", "the output file is missing")
	}
	recipients, err := recipientsOf(c)
	if err != nil {
		return err
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	if files, err := audit.Files(cfg.SQLitePath); err == nil && len(files) == 0 {
		return exit.Fail("sandboxmcp config shows its configured place", "no log at %s: nothing to back up", cfg.SQLitePath)
	}
	var b createdBackup
	err = wiring.WithSignedLog(c, func(ctx context.Context, log *audit.Log) error {
		if _, err := log.Checkpoint(ctx); err != nil { // a checkpoint in the backup covers all rows so far
			return err
		}
		b, err = createBackup(ctx, cfg, log, out, recipients)
		return err
	})
	if err != nil {
		return explainWriteError(err, out)
	}
	for _, text := range b.Missing {
		p.Messagef("warning: %s", text)
	}
	return p.Printf(c, b, "wrote %s of %d bytes to %s\nSHA-256 %s\n", terminal.Count(b.Content.Files, "file"), b.Content.Bytes, out, b.SHA256)
}

// recipientsOf returns the recipients that the command line names.
func recipientsOf(c *cli.Context) (all []age.Recipient, err error) {
	add := func(text []byte, from string) error {
		some, err := age.ParseRecipients(bytes.NewReader(text))
		if err != nil {
			return exit.Usage("--to age1..., as age-keygen prints it", "%s is not an age recipient: %v", from, err)
		}
		all = append(all, some...)
		return nil
	}
	for _, text := range c.StringSlice("to") {
		if strings.HasPrefix(text, "AGE-SECRET-KEY-") { // a private key must not appear in a message
			return nil, exit.Usage("--to age1..., as age-keygen -y KEYFILE prints it",
				"that is a key, and not its recipient: keep it secret, and make another one if others could read this command")
		}
		if err := add([]byte(text), text); err != nil {
			return nil, err
		}
	}
	if file := c.String("to-file"); file != "" {
		text, err := statefile.ReadSmall(file, maxSmallFile)
		if err != nil {
			return nil, err
		}
		if err := add(text, file); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, exit.Usage("--to age1..., which age-keygen prints", "the recipient is missing")
	}
	return all, nil
}

// createBackup writes a backup to a new file and describes it.
func createBackup(ctx context.Context, cfg config.Config, log *audit.Log, out string, recipients []age.Recipient) (b createdBackup,
	err error) {
	b = createdBackup{File: out, Backup: archiveHeader{format, ulid.Make().String(), time.Now().UTC().Truncate(time.Second),
		version.Current().Version}}
	err = statefile.CreateLarge(out, "backup", func(f *os.File) error {
		sum := sha256.New()
		count := &byteCounter{w: io.MultiWriter(f, sum)}
		if err := b.encrypt(ctx, cfg, count, recipients); err != nil {
			return err
		}
		b.Bytes, b.SHA256 = count.n, hex.EncodeToString(sum.Sum(nil))
		return nil
	}, func() error {
		var names []string
		for _, r := range recipients {
			if s, is := r.(fmt.Stringer); is {
				names = append(names, s.String())
			}
		}
		_, err := log.Append(ctx, audit.Entry{Kind: event.StateBackedUp, Namespace: "default", Data: map[string]any{
			"backup": b.Backup.ID, "sha256": b.SHA256, "bytes": b.Bytes, "files": b.Content.Files, "to": names,
			"by": "command line", "user": console.User(),
		}})
		return err
	})
	return b, err
}

// encrypt writes the backup, encrypted for the recipients, to w.
func (b *createdBackup) encrypt(ctx context.Context, cfg config.Config, w io.Writer, recipients []age.Recipient) error {
	sealed, err := age.Encrypt(w, recipients...)
	if err != nil {
		return err
	}
	a, err := newArchive(sealed, b.Backup)
	if err != nil {
		return err
	}
	if err := addResults(ctx, a, wiring.ResultsDir(cfg)); err != nil {
		return err
	}
	m, err := takeSnapshot(ctx, cfg)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.write(ctx, a); err != nil {
		return err
	}
	b.Missing = []string{}
	if m.elsewhere > 0 {
		b.Missing = append(b.Missing, "not in the backup: "+terminal.Count(m.elsewhere, "secret")+", whose values are in the system's keyring")
	}
	for _, name := range unknownEntries(cfg) {
		b.Missing = append(b.Missing, fmt.Sprintf("%q in %s is not known, and not in the backup", name, cfg.StateDir))
	}
	if b.Content, err = a.finish(); err != nil {
		return err
	}
	return sealed.Close()
}

// byteCounter counts the bytes written to it.
type byteCounter struct {
	w io.Writer
	n int64
}

func (c *byteCounter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// explainWriteError adds a hint to an error of writing a backup to out.
func explainWriteError(err error, out string) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return exit.Fail("--out with another name", "%s already exists", out)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Fail("free some space, or --out on another disk; nothing is left of the backup", "write %s: %v", out, err)
	}
	return err
}
