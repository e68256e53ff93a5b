package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p *program) hostCopy(c *cli.Context) error {
	args, err := words(c, 2, 2)
	if err != nil {
		return err
	}
	if c.IsSet("session") && c.IsSet("run") {
		return usage("sandboxmcp host copy --help", "a copy is of a session or of a run, not of both")
	}
	if c.IsSet("session") {
		return p.copyWithSession(c, args)
	}
	source, err := args[0], error(nil)
	if !c.IsSet("run") {
		source, err = onDisk(source)
	}
	if err != nil {
		return err
	}
	destination, err := onDisk(args[1])
	if err != nil {
		return err
	}
	return p.onHost(c, purpose{results: true}, func(ctx context.Context, l *pipeline.Pipeline, who pipeline.HostCaller) error {
		w, err := l.CopyHostFile(ctx, pipeline.HostCopy{HostCaller: who, Run: c.String("run"), Source: source, Destination: destination, Overwrite: c.Bool("overwrite")})
		return p.showWritten(c, w, "copied to", err)
	})
}

// copyWithSession has the server do it that has the session. What is not absolute is in the session.
func (p *program) copyWithSession(c *cli.Context, args []string) error {
	return asking(c, func(ctx context.Context, client *control.Client) error {
		done, err := client.Copy(ctx, c.String("session"), control.Copy{Source: args[0], Destination: args[1], Overwrite: c.Bool("overwrite")})
		if err != nil {
			return err
		}
		return p.showFile(c, hostWritten(done), "copied to")
	})
}
