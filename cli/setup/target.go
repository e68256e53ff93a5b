package setup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// target is a client's file.
type target struct {
	Client
	file
	dir string // of the project whose file it is; "" is the user's
}

// targetOf returns the client's file that the command line selects.
func targetOf(c *cli.Context, client Client) (t target, err error) {
	path, dir := "", c.String("project")
	if dir == "" {
		if path, err = client.UserFile(ThisMachine()); err != nil {
			return t, exit.Fail("set HOME, or use --project DIR", "%v", err)
		}
	} else {
		if dir, err = hostfs.Abs(dir); err != nil {
			return t, err
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return t, exit.Fail("--project .", "%s is not a directory", terminal.Visible(dir))
		}
		if path, err = client.ProjectFile(dir); err != nil {
			return t, exit.Fail("sandboxmcp setup "+client.Name, "%v", err)
		}
		if _, err := hostfs.Resolve(path); errors.As(err, new(*hostfs.LinkError)) { // programs work in projects
			return t, exit.Usage("put the file itself there, or remove the link", "%v", err)
		}
	}
	f, err := openFile(path)
	return target{client, f, dir}, err
}

// isGoRun reports whether go run built the program, and will remove it, by the go-build directory in its path.
func isGoRun(program string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(program), "/"),
		func(dir string) bool { return strings.HasPrefix(dir, "go-build") })
}

// thisProgram returns the path by which this program was started, if it leads here: the resolved path may contain a
// version, as with package managers, and disappear with the next one. A path that is not UTF-8 is an error.
func thisProgram() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	is, err := os.Stat(program)
	if typed, err2 := exec.LookPath(os.Args[0]); err == nil && err2 == nil {
		if at, err := os.Stat(typed); err == nil && os.SameFile(is, at) {
			if program, err = filepath.Abs(typed); err != nil {
				return "", err
			}
		}
	}
	if err == nil && !utf8.ValidString(program) {
		err = fmt.Errorf("the path of this program, %q, is not text, as clients' files are", program)
	}
	return program, err
}

// thisServer returns the entry that starts this program. Paths in its flags are absolute, since clients start it in any
// directory. A flag that was not typed comes from the existing entry, so that rewriting the entry removes no namespace;
// '*' as the namespace or the workspace removes it.
func thisServer(c *cli.Context, t target) (s Server, err error) {
	s.Name = c.String("name")
	if s.Command, err = thisProgram(); err != nil {
		return s, err
	}
	typed, err := command.FileArgs(c)
	if err != nil {
		return s, err
	}
	now, _, _ := t.entry(s.Name) // writing reports an unreadable file
	workspace := c.String("workspace")
	if workspace != "" && workspace != "*" {
		name, w, err := config.ParseWorkspace(workspace)
		if err != nil {
			return s, exit.Usage("use --workspace app=.", "--workspace %s: %v", workspace, err)
		}
		workspace = name + "=" + w.Path + ":" + w.Changes
	}
	for _, flag := range []string{"config", "db", "serve", "namespace", "tools", "workspace"} {
		if flag == "serve" {
			s.Args, typed = append(s.Args, flag), []string{"--namespace", c.String("namespace"), "--tools", c.String("tools"), "--workspace",
				workspace}
			continue
		}
		if value := cmp.Or(flagValue(typed, flag), flagValue(now.Args, flag)); value != "" && value != "*" {
			s.Args = append(s.Args, "--"+flag, value)
		}
	}
	return s, nil
}

// flagValue returns the value of a flag in arguments, or "".
func flagValue(args []string, flag string) string {
	if i := slices.Index(args, "--"+flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}
