package cli

import (
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/setup"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// hostFiles is what the configuration allows of files.
func hostFiles(cfg config.Config) pipeline.HostFiles {
	place := here() // without a home, what is private is known by its names alone
	return pipeline.HostFiles{Enabled: cfg.Host.Enabled, Read: cfg.Host.Read, Write: cfg.Host.Write, MaxBytes: cfg.Host.MaxFileMB << 20, Home: place.Home, Obeyed: setup.Files(place)}
}

// hostFileCommands are those of sandboxmcp host that are about files.
func (p *program) hostFileCommands() []*cli.Command {
	return []*cli.Command{{
		Name:      "read",
		Usage:     "print a file, with the namespace's secrets masked",
		UsageText: "sandboxmcp host read PATH [--offset BYTES] [--max-bytes BYTES] [--out FILE]",
		Description: `PATH has to be below a folder of host.read or host.write; at a terminal you are asked about others. What is no
text goes to a file or a pipe only, and not at all if a secret is in it.

Example: sandboxmcp host read ~/project/README.md`,
		Flags: append(hostFlags(),
			&cli.Int64Flag{Name: "offset", Usage: "`BYTES` to leave out at its beginning"},
			&cli.Int64Flag{Name: "max-bytes", Usage: "the most `BYTES` to print", DefaultText: "all"}, outFlag()),
		Action: func(c *cli.Context) error { return notDone(p.hostRead(c)) },
	}, {
		Name:      "write",
		Usage:     "write a file: as a whole, or not at all",
		UsageText: "sandboxmcp host write PATH [FILE|-] [--mode create|overwrite|append]",
		Description: `What is written comes from FILE, or from standard input. The folder has to be there, below one of host.write;
at a terminal you are asked about others. Hidden files, and others that this machine may run or obey by itself, are
refused below a folder that does not name them.

Example: date | sandboxmcp host write ~/project/now.txt --mode overwrite`,
		Flags:  append(hostFlags(), &cli.StringFlag{Name: "mode", Usage: "what to do about a file that is there: `MODE` is create, which refuses, overwrite or append", Value: "create"}),
		Action: func(c *cli.Context) error { return notDone(p.hostWrite(c)) },
	}, {
		Name:        "list",
		Usage:       "list a folder",
		UsageText:   "sandboxmcp host list DIR [--recursive] [--limit N]",
		Description: "Links are listed and not followed.\n\nExample: sandboxmcp host list ~/project --recursive",
		Flags: append(hostFlags(),
			&cli.BoolFlag{Name: "recursive", Usage: "list the folders below, too"},
			&cli.IntFlag{Name: "limit", Usage: "list at most `N` entries", Value: 1000}),
		Action: func(c *cli.Context) error { return notDone(p.hostList(c)) },
	}, {
		Name:      "copy",
		Usage:     "copy a file to or from a session, or what a run left, or within this machine",
		UsageText: "sandboxmcp host copy SRC DST [--session ID | --run REQUEST_ID] [--overwrite]",
		Description: `With --session, one of the two is relative to the session's working directory, and a server has to run. With --run,
SRC is an artifact of that run. All other paths are on this machine. A file in which a secret is found is not copied.

Examples:
  sandboxmcp host copy ~/project/data.csv data.csv --session 01K9ZB5W7Q3M8Y2D4F6H8J0K2M
  sandboxmcp host copy plot.png ~/project/plot.png --run 01K9ZB5W7Q3M8Y2D4F6H8J0K2M`,
		Flags: append(hostFlags(),
			&cli.StringFlag{Name: "session", Usage: "the session `ID` that has the relative path"},
			&cli.StringFlag{Name: "run", Usage: "the run `REQUEST_ID` that left SRC"},
			&cli.BoolFlag{Name: "overwrite", Usage: "replace a file that is there"}, serverFlag()),
		Action: func(c *cli.Context) error { return notDone(p.hostCopy(c)) },
	}}
}

func hostFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` that it is done for", Value: "default"}, jsonFlag()}
}

// onDisk is a path as it was typed, made absolute: a shell's working directory is known, an agent's is not.
func onDisk(typed string) (string, error) {
	if typed == "" {
		return "", usage("sandboxmcp host --help", "a path is empty")
	}
	path, err := filepath.Abs(typed)
	if err == nil && strings.HasSuffix(typed, "/") && path != "/" {
		path += "/" // which says that it is a folder
	}
	return path, err
}

// onlyPath is the path that is a command's only argument.
func onlyPath(c *cli.Context) (string, error) {
	args, err := words(c, 1, 1)
	if err != nil {
		return "", err
	}
	return onDisk(args[0])
}

// words are the command's arguments, at least least and at most most.
func words(c *cli.Context, lower, upper int) ([]string, error) {
	if n := c.NArg(); n < lower || n > upper {
		return nil, usage(c.Command.HelpName+" --help", "it is used like this: %s", c.Command.UsageText)
	}
	return c.Args().Slice(), nil
}
