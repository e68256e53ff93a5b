package client

import (
	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p commands) sessionCopyCommand() *cli.Command {
	return &cli.Command{
		Name:      "copy",
		Usage:     "copy exported files of another session",
		UsageText: "sandboxmcp session copy SESSION|--id SESSION --from SESSION PATH [TO] [--json] [--server PID]",
		Description: `PATH is below /workspace/exports of a session of the same namespace, where its code puts files to export. A file, or
the content of a directory, is copied into the directory TO, by default /workspace.

Example: sandboxmcp session copy 01K9ZB5W7Q --from 01K9ZC3M2A results data`,
		Flags:  []cli.Flag{sessionFlag(), &cli.StringFlag{Name: "from", Usage: "copy from the session `ID`"}, command.JSONFlag(), ServerFlag()},
		Action: p.sessionCopy,
	}
}

func (p commands) sessionCopy(c *cli.Context) error {
	id, words, err := sessionArgument(c, 2)
	if err != nil {
		return err
	}
	if len(words) == 0 || c.String("from") == "" {
		return exit.Usage("sandboxmcp session copy --help", "copy needs --from SESSION, and a PATH below its /workspace/exports")
	}
	q := control.Export{OfSession: control.OfSession{ID: id}, From: c.String("from"), Path: words[0], To: append(words, "")[1]}
	return CallServer(c, control.CopyExport, q, func(moved control.MovedFiles) error {
		return p.Printf(c, moved, "copied %s, %s, into %s of session %s\n", terminal.Count(moved.Files, "file"),
			terminal.Count(int(moved.Bytes), "byte"), terminal.Visible(moved.Path), terminal.Visible(moved.Session))
	})
}
