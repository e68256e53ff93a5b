package command

import (
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// JSONFlag is --json.
func JSONFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print it as JSON"} }

// OutFlag is --out, for [Streams.WriteOut].
func OutFlag() cli.Flag {
	return &cli.StringFlag{Name: "out", Usage: "write it to the new file `FILE` instead of standard output"}
}

// NoWords returns the action without arguments: a word on the command line is a usage error.
func NoWords(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > 0 {
			return exit.Usage(c.Command.HelpName+" --help", "%s has no use for %q", c.Command.Name, c.Args().First())
		}
		return action(c)
	}
}

// OneWord returns the action with one argument: any other number is a usage error, with a hint and a text.
func OneWord(action cli.ActionFunc, hint, text string) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() != 1 {
			return exit.Usage(hint, "%s", text)
		}
		return action(c)
	}
}

// Configured is the default text of flags whose default is a setting.
const Configured = "see sandboxmcp config"

// NamespaceFlag is --namespace, of commands that work in this process.
func NamespaceFlag() cli.Flag {
	return &cli.StringFlag{Name: "namespace", Usage: "in the namespace `NS`", Value: "default"}
}

// ToolsFlag is --tools.
func ToolsFlag(usage, value string) cli.Flag {
	return &cli.StringFlag{Name: "tools", Usage: usage, Value: value}
}

// FileArgs returns the flags that were typed of the program's own files, for a command line that is started in another
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

// ToolsOn reports whether --tools means only the tools that are on.
func ToolsOn(c *cli.Context) (on bool, err error) {
	switch which := c.String("tools"); which {
	case "on":
		return true, nil
	case "", "all":
		return false, nil
	default:
		return false, exit.Usage("--tools on", "--tools %s is not known: use all or on", terminal.Visible(which))
	}
}

// Positive reports whether the number of a flag is more than 0.
func Positive(c *cli.Context, name string) bool {
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

// Seconds is a number of seconds as a duration, within its type for any number: the cap is far below.
func Seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second))
}
