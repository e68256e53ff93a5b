package command

import (
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// JSONFlag returns --json.
func JSONFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print it as JSON"} }

// OutFlag returns --out, for [Streams.WriteOut].
func OutFlag() cli.Flag {
	return &cli.StringFlag{Name: "out", Usage: "write it to the new file `FILE` instead of standard output"}
}

// NoWords wraps the action of a command without arguments: a word on the command line is a usage error.
func NoWords(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > 0 {
			return exit.Usage(c.Command.HelpName+" --help", "%s: unexpected argument %q", c.Command.Name, c.Args().First())
		}
		return action(c)
	}
}

// ExactlyOneWord wraps the action of a command with one argument: any other number is a usage error with this hint and text.
func ExactlyOneWord(action cli.ActionFunc, hint, text string) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() != 1 {
			return exit.Usage(hint, "%s", text)
		}
		return action(c)
	}
}

// SeeConfig is the default text of flags whose default is a setting.
const SeeConfig = "see sandboxmcp config"

// NamespaceFlag returns --namespace, for commands that work in this process.
func NamespaceFlag() cli.Flag {
	return &cli.StringFlag{Name: "namespace", Usage: "in the namespace `NS`", Value: "default"}
}

// ToolsFlag returns --tools.
func ToolsFlag(usage, value string) cli.Flag {
	return &cli.StringFlag{Name: "tools", Usage: usage, Value: value}
}

// FileArgs returns the program's global file flags in the command line, with absolute paths, for a child in another
// directory.
func FileArgs(c *cli.Context) (args []string, err error) {
	for _, flag := range []string{"config", "db"} {
		if value := c.String(flag); value != "" {
			if value, err = filepath.Abs(value); err != nil {
				return nil, err
			}
			args = append(args, "--"+flag, value)
		}
	}
	return args, nil
}

// ToolsOn reports whether --tools asks only for the tools that are enabled.
func ToolsOn(c *cli.Context) (on bool, err error) {
	switch which := c.String("tools"); which {
	case "on":
		return true, nil
	case "", "all":
		return false, nil
	default:
		return false, exit.Usage("--tools on", "unknown --tools %s: use all or on", terminal.Visible(which))
	}
}

// IsPositive reports whether the number of a flag is more than 0.
func IsPositive(c *cli.Context, name string) bool {
	switch v := c.Value(name).(type) {
	case float64:
		return v > 0
	case int64:
		return v > 0
	case int:
		return v > 0
	}
	return false
}

// Seconds converts seconds to a duration without overflow: the caps are far below.
func Seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second))
}
