package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/setup"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/vault/tokens"
)

// projectDir returns the directory of --project, or the current one for commands without that flag.
func projectDir(c *cli.Context) (string, error) {
	dir, err := hostfs.Resolve(cmp.Or(c.String("project"), "."))
	if err != nil {
		return "", exit.Usage("--project DIR", "--project: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", exit.Usage("--project DIR", "%s is not a directory", terminal.Visible(dir))
	}
	return dir, nil
}

// checkProject refuses the home directory and those above it: all of the person's files would be the agent's to read.
func checkProject(dir string) error {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err == nil && paths.Within(home, dir) {
		return exit.Usage("cd to a project, or --project DIR", "%s is, or holds, your home directory, and an agent would see all files in it",
			terminal.Visible(dir))
	}
	return nil
}

// homeDir returns an agent's home for a project: its name is that of the project, and a part of a hash of its path.
func homeDir(cfg config.Config, agent, project string) string {
	sum := sha256.Sum256([]byte(project))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, filepath.Base(project))
	return filepath.Join(wiring.HomesDir(cfg), agent, fmt.Sprintf("%.40s-%s", name, hex.EncodeToString(sum[:4])))
}

// lockHome locks a home until the returned function is called: a session shares it with others, and reset does not.
func lockHome(ctx context.Context, home string, shared bool) (unlock func(), err error) {
	f, err := statefile.LockFile(ctx, home+".lock", shared, 0)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// makeHome makes a home with the files that the agent has to find in a new one, and with settings of the person if
// accept, which is asked with their names, agrees.
func makeHome(a setup.Agent, home string, accept func(names []string) bool) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(madeMark); err == nil {
		return nil
	}
	for name, text := range a.Files {
		if err := writeNew(root, name, []byte(text)); err != nil {
			return err
		}
	}
	if err := copySettings(a, root, accept); err != nil {
		return err
	}
	return writeNew(root, madeMark, nil)
}

// madeMark is a file in each home that is complete.
const madeMark = ".sandboxmcp-home"

// writeNew writes a file that the home does not have.
func writeNew(root *os.Root, name string, text []byte) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	return err
}

// Bounds of copied settings.
const (
	maxSettings = 2000
	maxSetting  = 1 << 20
)

// copySettings copies the person's settings that the agent's row names: regular files, without links, and with tokens of
// known formats masked.
func copySettings(a setup.Agent, root *os.Root, accept func(names []string) bool) error {
	dir, err := os.UserHomeDir()
	if err != nil {
		return nil // nothing can be copied
	}
	from, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer from.Close()
	there := slices.DeleteFunc(slices.Clone(a.Settings), func(name string) bool {
		_, err := from.Lstat(name)
		return err != nil
	})
	if len(there) == 0 || !accept(there) {
		return nil
	}
	files := 0
	for _, name := range there {
		err := fs.WalkDir(from.FS(), name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if files++; files > maxSettings {
				return fmt.Errorf("more than %d files", maxSettings)
			}
			text, err := readSetting(from, path)
			if err != nil || text == nil {
				return err
			}
			return writeNew(root, path, text)
		})
		if err != nil {
			return fmt.Errorf("copy settings %s: %w", name, err)
		}
	}
	return nil
}

// readSetting returns the content of a file with masked tokens, or nil for a file that is too large.
func readSetting(from *os.Root, path string) ([]byte, error) {
	f, info, err := statefile.OpenIn(from.Lstat, from.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxSetting {
		return nil, nil
	}
	var clean strings.Builder
	masked := tokens.NewWriter(&clean, true, func(string) {})
	_, err = io.Copy(masked, io.LimitReader(f, maxSetting))
	err = errors.Join(err, masked.Close())
	return []byte(clean.String()), err
}

// resetHomes removes the homes that the command line names, and returns them.
func resetHomes(c *cli.Context, cfg config.Config, a setup.Agent) (removed []string, err error) {
	project, err := projectDir(c)
	if err != nil {
		return nil, err
	}
	homes := []string{homeDir(cfg, a.Name, project)}
	if c.Bool("all") {
		if homes, err = filepath.Glob(filepath.Join(escapeGlob(wiring.HomesDir(cfg)), a.Name, "*")); err != nil {
			return nil, err
		}
		homes = slices.DeleteFunc(homes, func(name string) bool { return filepath.Ext(name) == ".lock" })
	}
	for _, home := range homes {
		if _, err := os.Lstat(home); err != nil {
			continue
		}
		unlock, err := lockHome(c.Context, home, false)
		if err != nil {
			return removed, exit.Fail("end its session first", "the home %s is in use", home)
		}
		err = removeTree(home)
		unlock()
		if err != nil {
			return removed, err
		}
		removed = append(removed, home)
	}
	return removed, nil
}

// removeTree removes a directory, also if programs have taken their own rights to directories in it away.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(path, 0o700) // RemoveAll reports what is still there
		}
		return nil
	})
	return errors.Join(root.Close(), os.RemoveAll(dir))
}
