package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

func (p commands) keyCommand() *cli.Command {
	return &cli.Command{
		Name:  "key",
		Usage: "show, export, replace or revoke the key that signs receipts",
		UsageText: "sandboxmcp key show [--json]\nsandboxmcp key export [--out FILE]\nsandboxmcp key rotate [--json]\nsandboxmcp key revoke " +
			"ID --reason TEXT [--from TIME] [--json]",
		Description: `The key is created when it is first needed, in keys/signing.key in the state directory. Anyone with the public
key can verify receipts, on any machine and offline.

Example: sandboxmcp key export --out signer.pub`,
		Subcommands: []*cli.Command{
			{
				Name:        "show",
				Usage:       "show the public key",
				UsageText:   "sandboxmcp key show [--json]",
				Description: "Example: sandboxmcp key show",
				Flags:       []cli.Flag{command.JSONFlag()},
				Action:      command.NoWords(p.keyShow),
			},
			{
				Name:        "export",
				Usage:       "print the public key in PEM, for sandboxmcp verify --key and cosign; never the private one",
				UsageText:   "sandboxmcp key export [--out FILE]",
				Description: "In JSON, with its id, it is in sandboxmcp key show --json.\n\nExample: sandboxmcp key export --out signer.pub",
				Flags:       []cli.Flag{command.OutFlag()},
				Action:      command.NoWords(p.keyExport),
			},
			{
				Name:      "rotate",
				Usage:     "replace the key by a new one, and destroy the old one",
				UsageText: "sandboxmcp key rotate [--json]",
				Description: `Earlier signatures of the old key stay valid, later ones do not count. A statement about the new key, signed by both, is
written for verifiers that know only the old one.

Example: sandboxmcp key rotate`,
				Flags:  []cli.Flag{command.JSONFlag()},
				Action: command.NoWords(p.keyRotate),
			},
			{
				Name:      "revoke",
				Usage:     "revoke the signatures of a replaced key",
				UsageText: "sandboxmcp key revoke ID --reason TEXT [--from TIME] [--json]",
				Description: `ID is the id of the key, or its prefix: key show lists them. Its signatures from TIME on do not count; earlier ones count
only if the log has them, since the thief of a key can backdate signatures. Give the statement, signed by the current
key, to other verifiers, for --key. The current key must be rotated first.

Examples:
  sandboxmcp key rotate
  sandboxmcp key revoke 34891b20 --from 2026-11-20 --reason "the disk was copied"`,
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "reason", Usage: "reason `TEXT` for the log and the statement"},
					&cli.StringFlag{Name: "from", Usage: "revoke from `TIME` on: 2h, 3d, 2026-01-31, or RFC 3339", DefaultText: "its beginning"},
					command.JSONFlag(),
				},
				Action: p.keyRevoke,
			},
		},
	}
}

// publicKey is the public key in the JSON output.
type publicKey struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Path    string    `json:"path"` // of the private key
	PEM     string    `json:"pem"`
	Note    string    `json:"note"` // in the format of checkpoint verifiers

	Before    []olderKey `json:"before,omitempty"`    // earlier keys, newest first
	Strangers []string   `json:"strangers,omitempty"` // files in the directory with keys that no statement introduces
}

// olderKey is a replaced key.
type olderKey struct {
	ID       string     `json:"id"`
	Replaced time.Time  `json:"replaced"`
	Revoked  *time.Time `json:"revoked,omitempty"` // start of the revocation; 1970-01-01 means from its creation
	Reason   string     `json:"reason,omitempty"`
	words    string     // phrase for the revocation
}

// keyShow prints the key, also in the form that checkpoints of the log use.
func (p commands) keyShow(c *cli.Context) error {
	keys, key, err := currentKey(c)
	if err != nil {
		return err
	}
	public := publicKey{ID: key.ID(), Created: key.Created, Path: filepath.Join(keys.Dir(), "signing.key"), PEM: string(key.PEM())}
	err = wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
		origin, err := log.Origin(ctx)
		if err != nil {
			return err
		}
		public.Note, err = key.NoteVerifier(origin)
		return err
	})
	if err != nil {
		return err
	}
	own, err := loadMachineKeys(c)
	if err != nil {
		return err
	}
	for _, k := range own.Keys()[1:] {
		old := olderKey{ID: k.ID(), Replaced: k.Replaced, Reason: k.Reason, words: k.Revocation()}
		if !k.Revoked.IsZero() {
			old.Revoked = &k.Revoked
		}
		public.Before = append(public.Before, old)
	}
	public.Strangers = own.strangers
	var b strings.Builder
	fmt.Fprintf(&b, "id       %s\ncreated  %s\npath     %s\n", public.ID, public.Created.Format(time.RFC3339), terminal.Visible(public.Path))
	fmt.Fprintf(&b, "note     %s\n", terminal.Visible(public.Note))
	for _, k := range public.Before {
		fmt.Fprintf(&b, "before   %s, replaced at %s", k.ID, k.Replaced.Format(time.RFC3339))
		if k.Revoked != nil {
			b.WriteString(", " + terminal.Visible(k.words))
		}
		b.WriteByte('\n')
	}
	for _, file := range public.Strangers {
		fmt.Fprintf(&b, "unknown  %s: no statement introduces this key, so it counts only with --key\n", terminal.Visible(file))
	}
	return p.Printf(c, public, "%s%s", b.String(), public.PEM)
}

// currentKey returns the signing key, which it creates if there is none.
func currentKey(c *cli.Context) (*signer.Keys, *signer.Key, error) {
	cfg, keys, err := wiring.LoadKeys(c)
	if err != nil {
		return nil, nil, err
	}
	made := keys.HasKey()
	key, err := keys.Current(c.Context)
	if err == nil && !made {
		err = wiring.SignNow(c.Context, cfg, keys)
	}
	return keys, key, err
}

func (p commands) keyExport(c *cli.Context) error {
	_, key, err := currentKey(c)
	if err != nil {
		return err
	}
	out := c.String("out")
	err = p.WriteOutAs(out, 0o644, func(w io.Writer) error {
		_, err := w.Write(key.PEM())
		return err
	})
	if err != nil || out == "" || out == "-" {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "wrote the public key %s to %s\n", key.ID(), terminal.Visible(out))
	return err
}

// newKey is the new key of a rotation, in the JSON output.
type newKey struct {
	ID        string `json:"id"`
	Statement string `json:"statement,omitempty"` // file with the old key's signature of the new key, if the old key was still there
}

func (p commands) keyRotate(c *cli.Context) error {
	cfg, keys, err := wiring.LoadKeys(c)
	if err != nil {
		return err
	}
	key, statement, err := keys.Rotate(c.Context)
	if err == nil {
		err = wiring.SignNow(c.Context, cfg, keys)
	}
	if err != nil {
		return err
	}
	text := fmt.Sprintf("receipts are signed with the key %s from now on\n", key.ID())
	if statement != "" {
		text += fmt.Sprintf("who knows only the old key believes in it with %s\n", terminal.Visible(statement))
	}
	return p.Printf(c, newKey{key.ID(), statement}, "%s", text)
}

// keyRevoke revokes a replaced key.
func (p commands) keyRevoke(c *cli.Context) error {
	if c.NArg() != 1 || c.String("reason") == "" {
		return exit.Usage("sandboxmcp key revoke ID --reason TEXT", "key revoke needs the ID of one key, as key show lists them, and a --reason")
	}
	cfg, keys, err := wiring.LoadKeys(c)
	if err != nil {
		return err
	}
	var from time.Time // from its creation
	if c.IsSet("from") {
		if from, err = timeFlag("from", c.String("from"), time.Now()); err != nil {
			return err
		}
	}
	own, err := loadMachineKeys(c)
	if err != nil {
		return err
	}
	id := c.Args().First()
	for _, k := range own.Keys() {
		if len(id) >= 8 && strings.HasPrefix(k.ID(), id) {
			id = k.ID()
		}
	}
	statement, err := keys.Revoke(c.Context, id, from, c.String("reason"))
	if errors.Is(err, signer.ErrCurrent) {
		return exit.Fail("sandboxmcp key rotate", "%v", err)
	}
	if statement == "" {
		return err
	}
	if err == nil {
		err = wiring.SignNow(c.Context, cfg, keys)
	}
	printed := p.Printf(c, newKey{id, statement}, "the key %s is revoked\npublish %s for everyone who has it\n", id,
		terminal.Visible(statement))
	if err != nil {
		p.Messagef("the key is revoked: %v", err)
	}
	if errors.As(err, new(*audit.Owed)) {
		err = nil
	}
	return exit.UnlessOK(err == nil, printed)
}
