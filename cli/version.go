package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print which version this is",
		UsageText:   "sandboxmcp version [--json]",
		Description: "Example: sandboxmcp version",
		Flags:       []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			v := version()
			if c.Bool("json") {
				return writeJSON(p.stdout, v)
			}
			_, err := fmt.Fprintf(p.stdout, "sandboxmcp %s %s (%s, %s)\n", v.Version, v.Commit, v.Go, v.Platform)
			return err
		},
	}
}

type versionInfo struct {
	Version  string `json:"version"` // as go install knows it, "(devel)" for a build from a work tree
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func version() versionInfo {
	v := versionInfo{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

// noWords refuses words that the command has no use for.
func noWords(c *cli.Context) error {
	if c.NArg() == 0 {
		return nil
	}
	return usage(c.Command.HelpName+" --help", "%s has no use for %q", c.Command.Name, c.Args().First())
}
