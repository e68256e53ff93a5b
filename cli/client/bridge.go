package client

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p commands) bridgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "bridge",
		Usage: "set a variable in a session",
		UsageText: "sandboxmcp bridge SESSION KEY JSON|-|@FILE [--json] [--server PID]\nsandboxmcp bridge SESSION KEY --from SESSION " +
			"[--from-key KEY]",
		Description: `The value is JSON: from the command line, from standard input for -, or from a file for @FILE; at most 32 MB, and
16 MB on another machine. In a shell it is the variable KEY, and the file $BRIDGE/KEY.json.

Example: sandboxmcp bridge 01K9ZB5W7Q rows @rows.json`,
		Flags: []cli.Flag{
			sessionFlag(),
			&cli.StringFlag{Name: "from", Usage: "copy the value from the session `ID` of the same namespace"},
			&cli.StringFlag{Name: "from-key", Usage: "its `NAME` there (default: KEY)"},
			command.JSONFlag(), ServerFlag(),
		},
		Action: p.bridge,
	}
}

func (p commands) bridge(c *cli.Context) error {
	id, words, err := sessionArgument(c, 2)
	if err != nil {
		return err
	}
	v := control.Value{From: c.String("from"), Its: c.String("from-key")}
	if v.From != "" && len(words) != 1 || v.From == "" && len(words) != 2 {
		return exit.Usage("sandboxmcp bridge --help", "bridge needs a session, a key, and a value or --from")
	}
	v.ID, v.Key = id, words[0]
	if v.From == "" {
		if v.Value, err = p.parseValue(words[1]); err != nil {
			return err
		}
	}
	return CallServer(c, control.PutValue, v, func(res pipeline.Outcome) error {
		return p.Printf(c, map[string]any{"id": res.ID, "session": res.Session, "key": v.Key},
			"%s is set in session %s\n", terminal.Visible(v.Key), terminal.Visible(res.Session))
	})
}

// maxValue is the maximum size of a value, in bytes.
const maxValue = 32 << 20

// parseValue returns the JSON for a word of the command line.
func (p commands) parseValue(word string) (json.RawMessage, error) {
	text, from := []byte(word), "the value"
	var err error
	if path, ok := strings.CutPrefix(word, "@"); ok {
		from = path
		var f *os.File
		switch f, _, err = hostfs.Open(path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, exit.Usage("check the spelling; the path starts at the current directory", "%v", err)
		case err != nil:
			return nil, command.PathError("", "", err)
		}
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, maxValue+1))
	} else if word == "-" {
		from = "standard input"
		text, err = io.ReadAll(io.LimitReader(p.In, maxValue+1))
	}
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxValue:
		return nil, exit.Usage("write it to a file, and pass that as an input", "%s has more than %d MB", terminal.Visible(from), maxValue>>20)
	case !json.Valid(text):
		return nil, exit.Usage(`text needs its quotes: '"text"'`, "%s is not JSON", terminal.Visible(from))
	}
	return text, nil
}
