package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// hostFiles is what the configuration allows of files.
func hostFiles(cfg config.Config) pipeline.HostFiles {
	home, _ := os.UserHomeDir() // without one, what is private is known by its names alone
	return pipeline.HostFiles{On: cfg.Host.Enabled, Read: cfg.Host.Read, Write: cfg.Host.Write, MaxBytes: cfg.Host.MaxFileMB << 20, Home: home}
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
		Action: p.hostRead,
	}, {
		Name:      "write",
		Usage:     "write a file: as a whole, or not at all",
		UsageText: "sandboxmcp host write PATH [FILE|-] [--mode create|overwrite|append]",
		Description: `What is written comes from FILE, or from standard input. The folder has to be there, below one of host.write;
at a terminal you are asked about others. What this machine runs by itself, such as git hooks, is refused.

Example: date | sandboxmcp host write ~/project/now.txt --mode overwrite`,
		Flags:  append(hostFlags(), &cli.StringFlag{Name: "mode", Usage: "what to do about a file that is there: `MODE` is create, which refuses, overwrite or append", Value: "create"}),
		Action: p.hostWrite,
	}, {
		Name:        "list",
		Usage:       "list a folder",
		UsageText:   "sandboxmcp host list DIR [--recursive] [--limit N]",
		Description: "Links are listed and not followed.\n\nExample: sandboxmcp host list ~/project --recursive",
		Flags: append(hostFlags(),
			&cli.BoolFlag{Name: "recursive", Usage: "list the folders below, too"},
			&cli.IntFlag{Name: "limit", Usage: "list at most `N` entries", Value: 1000}),
		Action: p.hostFolder,
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
		Action: p.hostCopy,
	}}
}

func hostFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` that it is done for", Value: "default"}, jsonFlag()}
}

// onHost has f do something in a pipeline of this process. Who sits at a terminal is asked for what is not allowed.
func (p *program) onHost(c *cli.Context, why purpose, f func(context.Context, *pipeline.Pipeline, pipeline.HostCaller) error) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(c.Context)
	defer cancel(nil)
	var terminal *console
	if cfg.Host.Enabled {
		terminal = openConsole()
		defer terminal.Close()
	}
	why.ask = terminal != nil
	parts, err := wire(ctx, cfg, why)
	if err != nil {
		return err
	}
	defer func() {
		if err := parts.Close(); err != nil {
			p.say("warning: %v", err)
		}
	}()
	who := pipeline.HostCaller{Namespace: c.String("namespace")}
	if terminal != nil {
		who.Ask = terminal.askOnTerminal(parts.approvals)
	}
	return refusedHost(f(ctx, parts.pipeline, who))
}

// refusedHost is a refusal with the exit code of a command that could not do what it should.
func refusedHost(err error) error {
	var stopped *pipeline.Error
	if errors.As(err, &stopped) {
		f := *asFailure(err)
		f.code = exitFailed
		return &f
	}
	return err
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

// words are the command's arguments, at least least and at most most.
func words(c *cli.Context, least, most int) ([]string, error) {
	if n := c.NArg(); n < least || n > most {
		return nil, usage("sandboxmcp "+c.Command.FullName()+" --help", "it is used like this: %s", c.Command.UsageText)
	}
	return c.Args().Slice(), nil
}

func (p *program) hostRead(c *cli.Context) error {
	args, err := words(c, 1, 1)
	if err != nil {
		return err
	}
	path, err := onDisk(args[0])
	if err != nil {
		return err
	}
	if c.Int64("offset") < 0 || c.Int64("max-bytes") < 0 {
		return usage("leave it out for all of the file", "--offset and --max-bytes must not be negative")
	}
	return p.onHost(c, purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who pipeline.HostCaller) error {
		got, err := l.ReadHostFile(ctx, pipeline.HostRead{HostCaller: who, Path: path, Offset: c.Int64("offset"), Max: c.Int64("max-bytes")})
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return writeJSON(p.stdout, shownFile(got))
		case c.String("out") != "" || !isTerminal(p.stdout):
			return p.writeOut(c.String("out"), func(w io.Writer) error { _, err := w.Write(got.Content); return err })
		case !got.Text:
			return fail("--out FILE, or a pipe", "%s is not text", path)
		}
		for line := range strings.Lines(string(got.Content)) {
			if _, err := fmt.Fprintln(p.stdout, visible(strings.TrimSuffix(line, "\n"))); err != nil {
				return err
			}
		}
		return nil
	})
}

// fileShown is a part of a file, as JSON shows it.
type fileShown struct {
	Run    string `json:"run"`
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
	Total  int64  `json:"total_bytes"`
	Next   int64  `json:"next_offset,omitempty"`
	SHA256 string `json:"sha256"`
}

func shownFile(got pipeline.HostContent) fileShown {
	f := fileShown{Run: got.ID, Path: got.Path, Total: got.Total, Next: got.Next, SHA256: got.SHA256}
	if got.Text && utf8.Valid(got.Content) {
		f.Text = string(got.Content)
	} else {
		f.Base64 = got.Content
	}
	return f
}

func (p *program) hostWrite(c *cli.Context) error {
	args, err := words(c, 1, 2)
	if err != nil {
		return err
	}
	path, err := onDisk(args[0])
	if err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	from := "-"
	if len(args) == 2 {
		from = args[1]
	}
	in, err := p.open(from)
	if err != nil {
		return fail("", "%v", err)
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, cfg.Host.MaxFileMB<<20+1))
	if err != nil {
		return fail("", "read %s: %v", from, err)
	}
	return p.onHost(c, purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who pipeline.HostCaller) error {
		w, err := l.WriteHostFile(ctx, pipeline.HostWrite{HostCaller: who, Path: path, Content: content, Mode: c.String("mode")})
		return p.showWritten(c, w, "wrote", err)
	})
}

// writtenShown is a file that was written, as JSON shows it.
type writtenShown struct {
	Run    string   `json:"run"`
	Path   string   `json:"path"`
	Size   int64    `json:"size_bytes"`
	SHA256 string   `json:"sha256,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

func (p *program) showWritten(c *cli.Context, w pipeline.HostWritten, did string, err error) error {
	if err != nil {
		return err
	}
	return p.showFile(c, writtenShown{w.ID, w.Path, w.Size, w.SHA256, w.Notes}, did)
}

func (p *program) showFile(c *cli.Context, w writtenShown, did string) error {
	if c.Bool("json") {
		return writeJSON(p.stdout, w)
	}
	for _, n := range w.Notes {
		p.say("note: %s", n)
	}
	hash := ""
	if w.SHA256 != "" {
		hash = ", SHA-256 " + w.SHA256
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s: %s%s\n", did, visible(w.Path), count(int(w.Size), "byte"), hash)
	return err
}

func (p *program) hostFolder(c *cli.Context) error {
	args, err := words(c, 1, 1)
	if err != nil {
		return err
	}
	path, err := onDisk(args[0])
	if err != nil {
		return err
	}
	if c.Int("limit") < 1 {
		return usage("leave it out for 1000", "--limit must be more than 0")
	}
	return p.onHost(c, purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who pipeline.HostCaller) error {
		got, err := l.ListHostFolder(ctx, pipeline.HostList{HostCaller: who, Path: path, Recursive: c.Bool("recursive"), Limit: c.Int("limit")})
		if err != nil {
			return err
		}
		return p.showFolder(c, got)
	})
}

type entryShown struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Size int64  `json:"size_bytes"`
}

func (p *program) showFolder(c *cli.Context, l pipeline.HostListing) error {
	all := []entryShown{}
	for _, e := range l.Entries {
		all = append(all, entryShown(e))
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, struct {
			Run     string       `json:"run"`
			Entries []entryShown `json:"entries"`
			More    bool         `json:"more"`
		}{l.ID, all, l.More})
	}
	t := newTable(p.stdout, column{name: "KIND"}, column{name: "BYTES", right: true}, column{name: "PATH", whole: true})
	for _, e := range all {
		if err := t.Row(e.Kind, fmt.Sprint(e.Size), e.Path); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	if l.More {
		p.say("there are more: --limit %d shows twice as many", 2*c.Int("limit"))
	}
	return nil
}
