package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p commands) vaultImportCommand() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "add all secrets of a .env file, or none",
		UsageText: "sandboxmcp vault import FILE [flags]",
		Description: `Values are not expanded: a $ stays a $. Quotes around a value are removed; "..." may contain the escapes \n, \r, \t, \", \\ and
\$, '...' none, and both may have several lines. White space and a # begin a comment. Lines that programs interpret
differently are refused. The file stays unchanged. "-" is standard input.

Examples:
  sandboxmcp vault import .env --dry-run
  sandboxmcp vault import .env --namespace team-a
  sops -d secrets.env | sandboxmcp vault import - --replace`,
		Flags: slices.Concat([]cli.Flag{command.NamespaceFlag()}, bindingFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "replace", Usage: "replace existing secrets and their hosts"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only print what would be added"},
			command.JSONFlag(),
		}),
		Action: command.ExactlyOneWord(p.vaultImport, "sandboxmcp vault import .env", "vault import needs one FILE"),
	}
}

// importResult is the JSON output of import.
type importResult struct {
	Namespace string   `json:"namespace"`
	Names     []string `json:"names"`
	Replaced  []string `json:"replaced"`
	DryRun    bool     `json:"dry_run"`
}

func (p commands) vaultImport(c *cli.Context) error {
	if err := vault.CheckName(c.String("namespace"), "KEY"); err != nil {
		return exit.Usage("sandboxmcp vault import --help", "%v", err)
	}
	to, err := bindingFrom(c)
	if err != nil {
		return err
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	variables, readers, err := p.readEnvFile(c.Args().First())
	if err != nil {
		return err
	}
	defer func() {
		for _, v := range variables {
			clear(v.Value)
		}
	}()
	ctx, stop := command.UntilSignal(c)
	there, _, err := vault.NewSealed(cfg.StateDir, nil).List(ctx, c.String("namespace"))
	stop()
	if err != nil {
		return err
	}
	all, done, err := additions(c, variables, there, to)
	if err != nil {
		return err
	}
	for _, a := range all {
		if err := a.Check(); err != nil {
			return exit.Fail("", "%v; nothing was added", err)
		}
	}
	if !done.DryRun {
		err = changeVault(c, cfg, func(ctx context.Context, s *vault.Sealed) error { return s.AddAll(ctx, all, c.Bool("replace")) })
	}
	switch {
	case errors.Is(err, vault.ErrExists):
		return exit.Fail("--replace takes its place", "%v; nothing was added", err)
	case err != nil:
		return err
	}
	p.warnAfterImport(cfg, variables, all, readers)
	return p.showImport(c, done)
}

// readEnvFile reads the file, and describes who else can read it.
func (p commands) readEnvFile(name string) (all []vault.EnvVariable, readers string, err error) {
	in, from := p.In, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, "", exit.Usage("the path starts at the current directory", "%v", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			readers = name + " still holds the values, and " + describeReaders(info.Mode()) + ": delete it when it is not needed"
		}
		in, from = f, name
	}
	text, err := io.ReadAll(io.LimitReader(in, vault.MaxEnvFile+1))
	defer clear(text)
	if err != nil {
		return nil, "", exit.Fail("", "read %s: %v", from, err)
	}
	if all, err = vault.ReadEnvFile(text); err != nil {
		return nil, "", exit.Fail("sandboxmcp vault import --help", "%s: %v; nothing was added", from, err)
	}
	if len(all) == 0 {
		return nil, "", exit.Fail("", "%s sets nothing", from)
	}
	return all, readers, nil
}

// describeReaders describes who can read a file of this mode.
func describeReaders(mode fs.FileMode) string {
	switch {
	case mode.Perm()&0o004 != 0:
		return "everybody on this machine can read it"
	case mode.Perm()&0o040 != 0:
		return "its owner and its group can read it"
	}
	return "its owner can read it"
}

// additions returns the secrets to add. One error names all invalid variables, so that a file can be corrected in one
// step.
func additions(c *cli.Context, variables []vault.EnvVariable, there []vault.Entry, to vault.Binding) (all []vault.Addition,
	done importResult, err error) {
	done = importResult{Namespace: c.String("namespace"), Names: []string{}, Replaced: []string{}, DryRun: c.Bool("dry-run")}
	var empty []string
	for _, v := range variables {
		all = append(all, vault.Addition{Value: v.Value,
			Entry: vault.Entry{Namespace: done.Namespace, Key: v.Name, Binding: to, Store: vault.InSealed}})
		done.Names = append(done.Names, v.Name)
		if slices.ContainsFunc(there, func(e vault.Entry) bool { return e.Key == v.Name }) {
			done.Replaced = append(done.Replaced, v.Name)
		}
		if len(v.Value) == 0 {
			empty = append(empty, v.Name)
		}
	}
	switch {
	case len(empty) > 0:
		err = exit.Fail("remove these lines, or give them values", "a secret can't be empty, as in the file: %s; nothing was added",
			strings.Join(empty, ", "))
	case len(done.Replaced) > 0 && !c.Bool("replace"):
		err = exit.Fail("--replace takes their place", "in the vault already: %s; nothing was added", strings.Join(done.Replaced, ", "))
	}
	return all, done, err
}

// warnAfterImport warns about effects that the user may not expect.
func (p commands) warnAfterImport(cfg config.Config, variables []vault.EnvVariable, all []vault.Addition, readers string) {
	for _, v := range variables {
		if v.Expands {
			p.Messagef("warning: the value of %s has a $ before a name, which other programs would expand; here it stays as it is written", v.Name)
		}
	}
	if slices.Contains(cfg.Vault, vault.InSealed) {
		for _, a := range all {
			p.warnUnused(cfg, a.Entry)
		}
	} else {
		p.warnUnused(cfg, all[0].Entry)
	}
	if readers != "" {
		p.Messagef("warning: %s", readers)
	}
}

func (p commands) showImport(c *cli.Context, done importResult) error {
	did, text := "added", ""
	if done.DryRun {
		did = "would add"
	}
	for _, name := range done.Names {
		text += fmt.Sprintf("%s %s to the namespace %s", did, name, done.Namespace)
		if slices.Contains(done.Replaced, name) {
			text += ", in the place of the one that is there"
		}
		text += "\n"
	}
	return p.Printf(c, done, "%s", text)
}
