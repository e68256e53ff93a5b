package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

func (p *program) keyCommand() *cli.Command {
	return &cli.Command{
		Name:      "key",
		Usage:     "show, hand out or replace the key that receipts are signed with",
		UsageText: "sandboxmcp key show [--json]\nsandboxmcp key export [--out FILE]\nsandboxmcp key rotate [--json]",
		Description: `The key is made when it is first needed, and kept in keys/signing.key in the state directory. Whoever has the
public key can check receipts, on any machine and without a network.

Example: sandboxmcp key export --out signer.pub`,
		Action: func(c *cli.Context) error {
			return usage("sandboxmcp key --help", "say what to do: key show, key export or key rotate")
		},
		Subcommands: []*cli.Command{
			{
				Name:        "show",
				Usage:       "show the public key",
				UsageText:   "sandboxmcp key show [--json]",
				Description: "Example: sandboxmcp key show",
				Flags:       []cli.Flag{jsonFlag()},
				Action:      p.keyShow,
			},
			{
				Name:        "export",
				Usage:       "print the public key in PEM, for sandboxmcp verify --key and cosign; never the private one",
				UsageText:   "sandboxmcp key export [--out FILE]",
				Description: "In JSON, with its id, it is in sandboxmcp key show --json.\n\nExample: sandboxmcp key export --out signer.pub",
				Flags:       []cli.Flag{outFlag()},
				Action:      p.keyExport,
			},
			{
				Name:      "rotate",
				Usage:     "replace the key by a new one, and destroy it",
				UsageText: "sandboxmcp key rotate [--json]",
				Description: `What the old key signed stays verifiable. A statement about the new key, signed by the old one, is left for
those who know only that.

Example: sandboxmcp key rotate`,
				Flags:  []cli.Flag{jsonFlag()},
				Action: p.keyRotate,
			},
		},
	}
}

// shownKey is the public key as JSON shows it.
type shownKey struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Path    string    `json:"path"` // of the private key
	PEM     string    `json:"pem"`
	Note    string    `json:"note"` // as readers of checkpoints of the log take it
}

// keyShow shows the key, also as it signs checkpoints of the log.
func (p *program) keyShow(c *cli.Context) error {
	keys, key, err := p.currentKey(c)
	if err != nil {
		return err
	}
	shown := shownKey{ID: key.ID(), Created: key.Created, Path: filepath.Join(keys.Dir(), "signing.key"), PEM: string(key.PEM())}
	err = withLog(c, func(ctx context.Context, log *audit.Log) error {
		origin, err := log.Origin(ctx)
		if err != nil {
			return err
		}
		shown.Note, err = key.Note(origin)
		return err
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, shown)
	}
	_, err = fmt.Fprintf(p.stdout, "id       %s\ncreated  %s\npath     %s\n", shown.ID, shown.Created.Format(time.RFC3339), visible(shown.Path))
	if err == nil {
		_, err = fmt.Fprintf(p.stdout, "note     %s\n", visible(shown.Note))
	}
	if err == nil {
		_, err = fmt.Fprint(p.stdout, shown.PEM)
	}
	return err
}

// currentKey is the key to sign with, which is made if there is none yet.
func (p *program) currentKey(c *cli.Context) (*signer.Keys, *signer.Key, error) {
	if err := noWords(c); err != nil {
		return nil, nil, err
	}
	cfg, err := load(c)
	if err != nil {
		return nil, nil, err
	}
	keys, err := keysOf(cfg)
	if err != nil {
		return nil, nil, err
	}
	made := keys.Made()
	key, err := keys.Current(c.Context)
	if err == nil && !made {
		err = signNow(c.Context, cfg, keys)
	}
	return keys, key, err
}

func (p *program) keyExport(c *cli.Context) error {
	_, key, err := p.currentKey(c)
	if err != nil {
		return err
	}
	out := c.String("out")
	err = p.writeOutAs(out, 0o644, func(w io.Writer) error {
		_, err := w.Write(key.PEM())
		return err
	})
	if err != nil || out == "" || out == "-" {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "wrote the public key %s to %s\n", key.ID(), visible(out))
	return err
}

// newKey is a key that took another one's place, as JSON shows it.
type newKey struct {
	ID        string `json:"id"`
	Statement string `json:"statement,omitempty"` // the file in which the old key, if it still was there, vouches for it
}

func (p *program) keyRotate(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	keys, err := keysOf(cfg)
	if err != nil {
		return err
	}
	key, statement, err := keys.Rotate(c.Context)
	if err == nil {
		err = signNow(c.Context, cfg, keys)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, newKey{key.ID(), statement})
	}
	if _, err = fmt.Fprintf(p.stdout, "receipts are signed with the key %s from now on\n", key.ID()); err != nil {
		return err
	}
	if statement != "" {
		_, err = fmt.Fprintf(p.stdout, "who knows only the old key believes in it with %s\n", visible(statement))
	}
	return err
}
