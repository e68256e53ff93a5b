package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p commands) vaultVerifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "decrypt every secret without showing it, and check the vault's permissions",
		UsageText: "sandboxmcp vault verify [--namespace NS] [--json]",
		Description: `It changes nothing. If something is wrong, it prints the remedy, and the exit code is 1.

Example: sandboxmcp vault verify`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "namespace", Usage: "open only secrets of the namespace `NS`"},
			command.JSONFlag(),
		},
		Action: command.NoWords(wiring.WithConfig(p.vaultVerify)),
	}
}

// vaultState is the JSON output of vault verify.
type vaultState struct {
	OK       bool           `json:"ok"`
	Key      *vaultKey      `json:"key,omitempty"` // absent if there is no key, or none that can be read
	Secrets  []openedSecret `json:"secrets"`
	Files    []vaultFile    `json:"files"`
	Problems []vaultProblem `json:"problems"`
}

type vaultKey struct {
	ID string `json:"id"` // identifies the key, and opens nothing
	In string `json:"in"` // file or keyring
}

type openedSecret struct {
	secretEntry
	Opens bool `json:"opens"`
}

type vaultFile struct {
	Path  string `json:"path"`
	Mode  string `json:"mode"`
	Owner string `json:"owner,omitempty"` // user id, where files have one
}

type vaultProblem struct {
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

func (v *vaultState) addProblem(remedy, format string, args ...any) {
	v.Problems = append(v.Problems, vaultProblem{fmt.Sprintf(format, args...), remedy})
}

func (p commands) vaultVerify(ctx context.Context, c *cli.Context, cfg config.Config) error {
	v := &vaultState{Secrets: []openedSecret{}, Files: []vaultFile{}, Problems: []vaultProblem{}}
	v.checkFiles(cfg.StateDir)
	v.openAll(ctx, cfg, c.String("namespace"))
	v.OK = len(v.Problems) == 0
	if err := ctx.Err(); err != nil {
		return err
	}
	return exit.UnlessOK(v.OK, p.Print(c, v, v.writeText))
}

// checkFiles checks who can read and write the files of the vault, and whether an interrupted change left something.
func (v *vaultState) checkFiles(dir string) {
	for _, f := range []struct {
		name   string
		others fs.FileMode // modes that only the owner may have
	}{
		{"", 0o022}, {"vault.db", 0o077}, {"vault.db-journal", 0o077}, {"vault.db-wal", 0o077}, {"vault.db-shm", 0o077}, {"vault.key", 0o077},
		{"vault.key.next", 0o077},
	} {
		path := filepath.Join(dir, f.name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			v.addProblem("", "%v", err)
			continue
		}
		owner := ""
		if uid, ok := statefile.Owner(info); ok {
			owner = strconv.Itoa(uid)
		}
		v.Files = append(v.Files, vaultFile{path, info.Mode().String(), owner})
		mode := "600"
		if info.IsDir() {
			mode = "700"
		}
		switch {
		case !info.Mode().IsRegular() && f.name != "":
			v.addProblem("put the file itself there", "%s is not a file: %s", path, info.Mode().Type())
		case owner != "" && !statefile.IsOurs(info):
			v.addProblem("chown it, after you know why that is", "%s belongs to another user (%s)", path, owner)
		case statefile.HasModes && info.Mode().Perm()&f.others != 0 && f.name == "":
			v.addProblem("chmod "+mode+" "+path, "others on this machine may put files into %s (%s)", path, info.Mode())
		case statefile.HasModes && info.Mode().Perm()&f.others != 0:
			v.addProblem("chmod "+mode+" "+path+", and replace the secrets with sandboxmcp vault rotate if somebody may have read it",
				"others on this machine may read or change %s (%s)", path, info.Mode())
		case f.name == "vault.key.next":
			v.addProblem("sandboxmcp vault rekey does it anew and destroys the old one",
				"vault rekey was ended before it had removed one of two keys")
		}
	}
}

// openAll opens each secret of the namespace, or of all for "".
func (v *vaultState) openAll(ctx context.Context, cfg config.Config, namespace string) {
	sealed := vault.NewSealed(cfg.StateDir, nil)
	entries, problems, unknown, err := entriesOf(ctx, cfg, namespace)
	if err != nil {
		v.addProblem("", "%v", err)
		return
	}
	id, place, err := sealed.Key(ctx)
	switch _, none := os.Lstat(filepath.Join(cfg.StateDir, "vault.key")); {
	case err == nil:
		v.Key = &vaultKey{id, place}
	case len(problems) == 0 && errors.Is(none, fs.ErrNotExist): // there is none until a secret is sealed
	case len(problems) == 0: // otherwise each secret reports it
		v.addProblem("", "%v", err)
	}
	if unknown != nil {
		v.addProblem("sandboxmcp audit verify", "when secrets were used is not known: %v", unknown)
	}
	for _, e := range entries {
		v.Secrets = append(v.Secrets, openedSecret{secretEntry: e, Opens: !e.Added.IsZero()})
	}
	for _, problem := range problems {
		v.addProblem("", "%v", problem)
	}
}

func (v *vaultState) writeText(w io.Writer) error {
	if len(v.Secrets) > 0 {
		t := terminal.NewTable(w, terminal.Columns("NAME", "NAMESPACE", "STORE", "OPENS", "AGE", "LAST USED")...)
		for _, s := range v.Secrets {
			age, last := s.times()
			t.Row(s.Name, s.Namespace, s.Store, yesOrNo(s.Opens), age, last)
		}
		if err := t.Close(); err != nil {
			return err
		}
	}
	var b strings.Builder
	for _, f := range v.Files {
		fmt.Fprintf(&b, "%s %s\n", f.Mode, terminal.Visible(f.Path))
	}
	if v.Key != nil {
		fmt.Fprintf(&b, "the key %s is in %s\n", terminal.Visible(v.Key.ID), map[string]string{vault.InFile: "the file vault.key",
			vault.InKeyring: "the keyring of the operating system"}[v.Key.In])
	}
	for _, x := range v.Problems {
		fmt.Fprintf(&b, "WRONG: %s\n", terminal.Visible(x.What))
		if x.Remedy != "" {
			fmt.Fprintf(&b, "  try: %s\n", terminal.Visible(x.Remedy))
		}
	}
	switch {
	case !v.OK:
		fmt.Fprintf(&b, "the vault has %s\n", terminal.Count(len(v.Problems), "problem"))
	case len(v.Secrets) == 0:
		b.WriteString("ok: no secrets\n")
	default:
		fmt.Fprintf(&b, "ok: opened %s\n", terminal.Count(len(v.Secrets), "secret"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
