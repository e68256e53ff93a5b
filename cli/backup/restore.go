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
	"path/filepath"
	"syscall"

	"filippo.io/age"
	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p commands) restoreCommand() *cli.Command {
	return &cli.Command{
		Name:      "restore",
		Usage:     "restore a backup after verifying all of it",
		UsageText: "sandboxmcp restore FILE --identity KEYFILE [--json]",
		Description: `KEYFILE has an age key that FILE is encrypted to. The backup is extracted beside the state directory and
verified there: each file against the manifest, the log against its checkpoints and keys, the signing key against its
public half, and the vault by opening it. Then the new directory replaces the state directory, which must be missing or
empty: nothing is overwritten. A row of the log, state.restored, records the backup. Nothing unverified is ever in place,
even if the command fails or is killed.

The vault's key is then in the file vault.key: sandboxmcp vault rekey keyring puts a new one into the keyring.

Changes after the backup are missing, and tokens that were revoked since are valid again: revoke them. If checkpoints
were pushed (audit.push), sandboxmcp audit verify reports an older log. A backup does not prove its origin: anyone who
knows the recipient can create one with other keys. Compare the printed id of the key, and pushed checkpoints.

Example: sandboxmcp restore /mnt/kept/monday.age --identity key.txt`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "identity", Usage: "decrypt it with the age key in `KEYFILE`"},
			command.JSONFlag(),
		},
		Action: command.ExactlyOneWord(p.restore, "sandboxmcp restore FILE --identity KEYFILE", "name one backup to restore"),
	}
}

// restoration is the output of restore.
type restoration struct {
	File    string        `json:"file"`
	Dir     string        `json:"dir"`
	Backup  archiveHeader `json:"backup"`
	Content manifest      `json:"content"`
	Rows    int64         `json:"rows"`
	Key     string        `json:"key,omitempty"` // id of the signing key
	Secrets int           `json:"secrets"`
	Missing []string      `json:"missing"` // secrets that the backup does not contain
}

// tempDirKind is part of the name of directories in which a backup is verified.
const tempDirKind = wiring.RestoreKind

func (p commands) restore(c *cli.Context) error {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	if err := checkDestination(cfg); err != nil {
		return err
	}
	identities, err := identitiesOf(c)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	r := restoration{File: c.Args().First(), Dir: cfg.StateDir, Missing: []string{}}
	if err := r.run(ctx, cfg, identities); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return exit.Fail("free some space; nothing was put in place", "restore %s: %v", r.File, err)
		}
		return err
	}
	for _, text := range r.Missing {
		p.Messagef("warning: %s", text)
	}
	return p.Printf(c, r, "restored %s to %s, as of %s: %s, signed by %s, %s\n", terminal.Count(r.Content.Files, "file"), r.Dir,
		r.Backup.Made.Local().Format("2006-01-02 15:04:05"), terminal.Count(int(r.Rows), "row"), r.Key, terminal.Count(r.Secrets, "secret"))
}

// checkDestination returns an error if the state directory or the log already exists.
func checkDestination(cfg config.Config) error {
	if want := filepath.Join(cfg.StateDir, logName); cfg.SQLitePath != want {
		return exit.Fail("restore with --db "+want+", and then move "+want+"* there",
			"the log is to be at %s, and a backup is put in place as one directory, with the log in it", cfg.SQLitePath)
	}
	entries, err := os.ReadDir(cfg.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return exit.Fail("stop its servers, and move it away: mv "+cfg.StateDir+" "+cfg.StateDir+".old",
			"there is a state in %s already, such as %s", cfg.StateDir, entries[0].Name())
	}
	return nil
}

func identitiesOf(c *cli.Context) ([]age.Identity, error) {
	file := c.String("identity")
	if file == "" {
		return nil, exit.Usage("--identity KEYFILE, with the key that age-keygen wrote", "the decryption key is missing")
	}
	text, err := statefile.ReadSmall(file, maxSmallFile)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	all, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil { // the error may quote the file
		return nil, exit.Usage("--identity KEYFILE, with the key that age-keygen wrote", "%s has no age keys", file)
	}
	return all, nil
}

// run restores the backup.
func (r *restoration) run(ctx context.Context, cfg config.Config, identities []age.Identity) error {
	f, err := statefile.Open(r.File)
	if err != nil {
		return err
	}
	defer f.Close()
	above := filepath.Dir(cfg.StateDir)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return err
	}
	temp, unlock, err := statefile.MakeTempDir(ctx, above, tempDirKind)
	if err != nil {
		return fmt.Errorf("make a directory beside %s: %w", cfg.StateDir, err)
	}
	defer unlock()
	defer os.RemoveAll(temp) // fails harmlessly once it was renamed
	sum, err := r.unpack(ctx, f, temp, identities)
	if err != nil {
		return err
	}
	there := cfg
	there.StateDir, there.SQLitePath = temp, filepath.Join(temp, logName)
	if err := r.verify(ctx, there); err != nil {
		return exit.Fail("nothing was put in place: take another backup", "%s is inconsistent: %v", r.File, err)
	}
	if err := r.record(ctx, there, sum); err != nil {
		return err
	}
	return moveIntoPlace(temp, cfg.StateDir)
}

// unpack decrypts and extracts the backup, and returns its SHA-256.
func (r *restoration) unpack(ctx context.Context, f io.Reader, temp string, identities []age.Identity) (string, error) {
	sum := sha256.New()
	whole := io.TeeReader(&interruptible{ctx, f}, sum)
	bad := func(err error) error {
		if ctx.Err() != nil || errors.Is(err, syscall.ENOSPC) {
			return errors.Join(context.Cause(ctx), err)
		}
		return exit.Fail("nothing was put in place: take another backup, or the right key", "%s can't be restored: %v", r.File, err)
	}
	plain, err := age.Decrypt(whole, identities...)
	if err != nil {
		return "", bad(err)
	}
	root, err := os.OpenRoot(temp)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if r.Backup, r.Content, err = extract(plain, root); err != nil {
		return "", bad(err)
	}
	if _, err := io.Copy(io.Discard, whole); err != nil { // age has verified everything at its end
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// interruptible is a reader that fails once its context has ended.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(b []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.r.Read(b)
}

// verify checks the extracted files against each other.
func (r *restoration) verify(ctx context.Context, cfg config.Config) error {
	keys, err := wiring.Keys(cfg)
	if err != nil {
		return err
	}
	if keys.HasKey() {
		key, err := keys.Current(ctx) // compares the key with its public half
		if err != nil {
			return err
		}
		r.Key = key.ID()
	}
	trust, err := keys.Trust()
	if err != nil {
		return err
	}
	if err := r.verifyLog(ctx, cfg.SQLitePath, wiring.CheckpointKeys(trust)); err != nil {
		return err
	}
	if _, err := identity.OpenTokens(cfg.StateDir).List(); err != nil {
		return err
	}
	return r.verifyVault(ctx, cfg.StateDir)
}

func (r *restoration) verifyLog(ctx context.Context, path string, keys []checkpoint.Key) error {
	if files, err := audit.Files(path); err == nil && len(files) == 0 { // audit.Open would create one
		return errors.New("it has no log")
	}
	log, err := audit.Open(ctx, path)
	if err != nil {
		return err
	}
	report, err := log.Verify(ctx, audit.VerifyOptions{Keys: keys})
	if err = errors.Join(err, log.Close()); err != nil {
		return err
	}
	switch r.Rows = report.Rows; {
	case report.Bad != nil:
		return fmt.Errorf("row %d of its log: %s", report.Bad.Seq, report.Bad.Why)
	case report.Checkpoint == nil || !report.Checkpoint.Signed:
		return errors.New("its log is not signed by its keys")
	}
	return nil
}

func (r *restoration) verifyVault(ctx context.Context, dir string) error {
	entries, unopened, err := vault.NewSealed(dir, nil).List(ctx, "")
	if err != nil {
		return err
	}
	for _, e := range entries {
		r.Secrets++
		if e.Store == vault.InKeyring {
			r.Missing = append(r.Missing, fmt.Sprintf("not in the backup: secret %s of namespace %s, whose value is in the system's keyring",
				e.Key, e.Namespace))
		}
	}
	if len(unopened) > len(r.Missing) {
		return fmt.Errorf("its vault: %w", errors.Join(unopened...))
	}
	if len(unopened) == 0 { // the keyring of this machine has them
		r.Missing = []string{}
	}
	return nil
}

// record appends a row about the restoration to the log and signs a checkpoint.
func (r *restoration) record(ctx context.Context, cfg config.Config, sum string) error {
	return wiring.RecordIn(ctx, cfg, audit.Entry{Kind: event.StateRestored, Namespace: "default", Data: map[string]any{
		"backup": r.Backup.ID, "made": r.Backup.Made, "sha256": sum, "rows": r.Rows, "by": "command line", "user": console.User(),
	}})
}

// moveIntoPlace moves temp to dir, which must be empty or missing.
func moveIntoPlace(temp, dir string) error {
	entries, err := os.ReadDir(temp)
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, statefile.SyncDir(filepath.Join(temp, e.Name())))
		}
	}
	if err = errors.Join(err, statefile.SyncDir(temp)); err != nil {
		return err
	}
	switch err := os.Remove(dir); {
	case errors.Is(err, syscall.EBUSY):
		return exit.Fail("set state_dir to a directory in it, such as "+filepath.Join(dir, "state")+", in the configuration",
			"%s is a mount point, which nothing can take the place of", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return exit.Fail("move it away, and restore once more", "%s is no longer empty: %v", dir, err)
	}
	if err := os.Rename(temp, dir); err != nil {
		return exit.Fail("move it away, and restore once more", "%s is no longer empty: %v", dir, err)
	}
	return statefile.SyncDir(filepath.Dir(dir))
}
