package outside

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/client"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

// hostFileCommands returns the subcommands of sandboxmcp host for files.
func (p commands) hostFileCommands() []*cli.Command {
	return []*cli.Command{{
		Name:      "read",
		Usage:     "print a file, with the namespace's secrets masked",
		UsageText: "sandboxmcp host read PATH [--offset BYTES] [--max-bytes BYTES] [--out FILE]",
		Description: `PATH must be below a directory of host.read or host.write; on a terminal you are asked about others. Binary files
go only to a file or a pipe, and not at all if they contain a secret.

Example: sandboxmcp host read ~/project/README.md`,
		Flags: append(hostFlags(),
			&cli.Int64Flag{Name: "offset", Usage: "skip the first `BYTES`"},
			&cli.Int64Flag{Name: "max-bytes", Usage: "print at most `BYTES`", DefaultText: "all"}, command.OutFlag()),
		Action: func(c *cli.Context) error { return exit.AsFailure(p.hostRead(c)) },
	}, {
		Name:      "write",
		Usage:     "write a file atomically",
		UsageText: "sandboxmcp host write PATH [FILE|-] [--mode create|overwrite|append]",
		Description: `The content comes from FILE, or from standard input. The directory must exist, below one of host.write; on a terminal
you are asked about others. Hidden files, and files that this machine may execute or read as configuration by itself,
are refused unless the allowed directory names them.

Example: date | sandboxmcp host write ~/project/now.txt --mode overwrite`,
		Flags: append(hostFlags(), &cli.StringFlag{Name: "mode",
			Usage: "treat an existing file by `MODE`: create, which refuses, overwrite or append", Value: "create"}),
		Action: func(c *cli.Context) error { return exit.AsFailure(p.hostWrite(c)) },
	}, {
		Name:        "list",
		Usage:       "list a directory",
		UsageText:   "sandboxmcp host list DIR [--recursive] [--limit N]",
		Description: "Links are listed, but not followed.\n\nExample: sandboxmcp host list ~/project --recursive",
		Flags: append(hostFlags(),
			&cli.BoolFlag{Name: "recursive", Usage: "list subdirectories, too"},
			&cli.IntFlag{Name: "limit", Usage: "list at most `N` entries", Value: 1000}),
		Action: func(c *cli.Context) error { return exit.AsFailure(p.hostList(c)) },
	}, {
		Name:      "copy",
		Usage:     "copy a file to or from a session, from a run, or within this machine",
		UsageText: "sandboxmcp host copy SRC DST [--session ID | --run REQUEST_ID] [--overwrite]",
		Description: `With --session, the relative path is in the session's working directory, and a server must be running. With --run, SRC is
an artifact of that run. All other paths are on this machine. A file that contains a secret is not copied.

Examples:
  sandboxmcp host copy ~/project/data.csv data.csv --session 01K9ZB5W7Q3M8Y2D4F6H8J0K2M
  sandboxmcp host copy plot.png ~/project/plot.png --run 01K9ZB5W7Q3M8Y2D4F6H8J0K2M`,
		Flags: append(hostFlags(),
			&cli.StringFlag{Name: "session", Usage: "resolve relative paths in the session `ID`"},
			&cli.StringFlag{Name: "run", Usage: "copy SRC from the run `REQUEST_ID`"},
			&cli.BoolFlag{Name: "overwrite", Usage: "replace an existing file"}, client.ServerFlag()),
		Action: func(c *cli.Context) error { return exit.AsFailure(p.hostCopy(c)) },
	}}
}

func hostFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the operation", Value: "default"}, command.JSONFlag()}
}

// absolutePath makes a typed path absolute: a shell has a known working directory, an agent does not.
func absolutePath(typed string) (string, error) {
	if typed == "" {
		return "", exit.Usage("sandboxmcp host --help", "a path is empty")
	}
	path, err := filepath.Abs(typed)
	if err == nil && strings.HasSuffix(typed, "/") && path != "/" {
		path += "/" // marks a directory
	}
	return path, err
}

// pathArgument returns the path that is the only argument of the command.
func pathArgument(c *cli.Context) (string, error) {
	args, err := argumentsBetween(c, 1, 1)
	if err != nil {
		return "", err
	}
	return absolutePath(args[0])
}

// argumentsBetween returns the arguments of the command, whose number must be between lower and upper.
func argumentsBetween(c *cli.Context, lower, upper int) ([]string, error) {
	if n := c.NArg(); n < lower || n > upper {
		return nil, exit.Usage(c.Command.HelpName+" --help", "usage: %s", c.Command.UsageText)
	}
	return c.Args().Slice(), nil
}

func (p commands) hostCopy(c *cli.Context) error {
	args, err := argumentsBetween(c, 2, 2)
	if err != nil {
		return err
	}
	if c.IsSet("session") && c.IsSet("run") {
		return exit.Usage("sandboxmcp host copy --help", "a copy is from a session or a run, not both")
	}
	if c.IsSet("session") {
		return p.copyWithSession(c, args)
	}
	source, err := args[0], error(nil)
	if !c.IsSet("run") {
		source, err = absolutePath(source)
	}
	if err != nil {
		return err
	}
	destination, err := absolutePath(args[1])
	if err != nil {
		return err
	}
	return p.withHost(c, wiring.Purpose{Results: true}, func(ctx context.Context, l *pipeline.Pipeline, who host.Caller) error {
		w, res, err := pipeline.Do(ctx, l, host.CopyFile{
			Caller: who, Run: c.String("run"), Source: source, Destination: destination, Overwrite: c.Bool("overwrite"),
		})
		return p.showWritten(c, w, res, "copied to", err)
	})
}

// copyWithSession copies through the server of a session. Relative paths are in the session.
func (p commands) copyWithSession(c *cli.Context, args []string) error {
	q := control.Copy{OfSession: control.OfSession{ID: c.String("session")}, Source: args[0], Destination: args[1],
		Overwrite: c.Bool("overwrite")}
	return client.CallServer(c, control.CopyFile, q, func(done control.CopiedFile) error { return p.showFile(c, done, "copied to") })
}

func (p commands) hostRead(c *cli.Context) error {
	path, err := pathArgument(c)
	if err != nil {
		return err
	}
	if c.Int64("offset") < 0 || c.Int64("max-bytes") < 0 {
		return exit.Usage("leave it out for all of the file", "--offset and --max-bytes must not be negative")
	}
	return p.withHost(c, wiring.Purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who host.Caller) error {
		got, res, err := pipeline.Do(ctx, l, host.ReadFile{
			Caller: who, Path: path, Offset: c.Int64("offset"), Max: c.Int64("max-bytes"),
		})
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			f := hostContent{Run: res.ID, Path: got.Path, Total: got.Total, Next: got.Next, SHA256: got.SHA256}
			if f.Text = string(got.Content); !got.Text || !utf8.Valid(got.Content) {
				f.Text, f.Base64 = "", got.Content
			}
			return terminal.WriteJSON(p.Out, f)
		case c.String("out") != "" || !terminal.IsTerminal(p.Out):
			return p.WriteOut(c.String("out"), func(w io.Writer) error { _, err := w.Write(got.Content); return err })
		case !got.Text:
			return exit.Fail("--out FILE, or a pipe", "%s is not text", path)
		}
		_, err = io.WriteString(p.Out, terminal.VisibleLines(string(got.Content)))
		return err
	})
}

// hostContent is a part of a file in the JSON output.
type hostContent struct {
	Run    string `json:"run"`
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
	Total  int64  `json:"total_bytes"`
	Next   int64  `json:"next_offset,omitempty"`
	SHA256 string `json:"sha256"`
}

func (p commands) hostList(c *cli.Context) error {
	path, err := pathArgument(c)
	if err != nil {
		return err
	}
	if c.Int("limit") < 1 {
		return exit.Usage("leave it out for 1000", "--limit must be more than 0")
	}
	return p.withHost(c, wiring.Purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who host.Caller) error {
		list, res, err := pipeline.Do(ctx, l, host.ListDirectory{
			Caller: who, Path: path, Recursive: c.Bool("recursive"), Limit: c.Int("limit"),
		})
		if err != nil {
			return err
		}
		return p.showDir(c, list, res)
	})
}

type hostEntry struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Size int64  `json:"size_bytes"`
}

func (p commands) showDir(c *cli.Context, l host.Listing, res pipeline.Outcome) error {
	all := []hostEntry{}
	for _, e := range l.Entries {
		all = append(all, hostEntry(e))
	}
	if c.Bool("json") {
		return terminal.WriteJSON(p.Out, struct {
			Run     string      `json:"run"`
			Entries []hostEntry `json:"entries"`
			More    bool        `json:"more"`
		}{res.ID, all, l.More})
	}
	t := terminal.NewTable(p.Out, terminal.Column{Name: "KIND"}, terminal.Column{Name: "BYTES", Right: true},
		terminal.Column{Name: "PATH", Whole: true})
	for _, e := range all {
		t.Row(e.Kind, fmt.Sprint(e.Size), e.Path)
	}
	if err := t.Close(); err != nil {
		return err
	}
	if l.More {
		p.Messagef("more entries follow: --limit %d shows twice as many", 2*c.Int("limit"))
	}
	return nil
}

func (p commands) hostWrite(c *cli.Context) error {
	args, err := argumentsBetween(c, 1, 2)
	if err != nil {
		return err
	}
	path, err := absolutePath(args[0])
	if err != nil {
		return err
	}
	from := "-"
	if len(args) == 2 {
		from = args[1]
	}
	in, err := p.OpenInput(from)
	if err != nil {
		return exit.Fail("", "%v", err)
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, host.DefaultFileBytes+1))
	if err != nil {
		return exit.Fail("", "read %s: %v", from, err)
	}
	return p.withHost(c, wiring.Purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who host.Caller) error {
		w, res, err := pipeline.Do(ctx, l, host.WriteFile{Caller: who, Path: path, Content: content, Mode: c.String("mode")})
		return p.showWritten(c, w, res, "wrote", err)
	})
}

func (p commands) showWritten(c *cli.Context, w host.Written, res pipeline.Outcome, did string, err error) error {
	if err != nil {
		return err
	}
	return p.showFile(c, control.CopiedFile{Run: res.ID, Path: w.Path, Size: w.Size, SHA256: w.SHA256, Notes: w.Notes}, did)
}

func (p commands) showFile(c *cli.Context, w control.CopiedFile, did string) error {
	for _, n := range w.Notes {
		if !c.Bool("json") {
			p.Messagef("note: %s", n)
		}
	}
	hash := ""
	if w.SHA256 != "" {
		hash = ", SHA-256 " + w.SHA256
	}
	return p.Printf(c, w, "%s %s: %s%s\n", did, terminal.Visible(w.Path), terminal.Count(int(w.Size), "byte"), hash)
}
