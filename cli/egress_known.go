package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// known is what servers know of egress.
type known struct {
	Waiting  []waiting  `json:"waiting"`
	Approved []approved `json:"approved"`
}

type waiting struct {
	approval.Question
	Server string `json:"server"`
	client *control.Client
}

type approved struct {
	control.Grant
	Server string `json:"server"`
	client *control.Client
}

// withEgress collects what the servers know that the command line means.
func withEgress(c *cli.Context, f func(context.Context, known) error) error {
	ctx, stop := command.UntilSignal(c)
	defer stop()
	clients, err := servers(ctx, c)
	for _, client := range clients {
		defer client.Close()
	}
	if err != nil {
		return err
	}
	all := known{Waiting: []waiting{}, Approved: []approved{}}
	for _, client := range clients {
		if err := all.add(ctx, client); err != nil {
			return fmt.Errorf("ask server %s: %w", client.Server().Name, err)
		}
	}
	return f(ctx, all)
}

// servers connects to the server that the command line names, or to all that run.
func servers(ctx context.Context, c *cli.Context) ([]*control.Client, error) {
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil, err
	}
	client, err := control.Dial(ctx, wiring.SocketDir(cfg), c.String("server"))
	var several *control.Several
	if !errors.As(err, &several) {
		if err != nil {
			return nil, noServer(err, c.String("server"))
		}
		return []*control.Client{client}, nil
	}
	var all []*control.Client
	for _, s := range several.Servers {
		client, err := control.Dial(ctx, wiring.SocketDir(cfg), s.Name)
		if errors.Is(err, control.ErrNone) { // it has ended meanwhile
			continue
		}
		if err != nil {
			return all, err
		}
		all = append(all, client)
	}
	return all, nil
}

func (k *known) add(ctx context.Context, client *control.Client) error {
	questions, err := client.Approvals(ctx)
	if err != nil {
		return err
	}
	grants, err := client.Grants(ctx)
	if err != nil {
		return err
	}
	name := client.Server().Name
	for _, q := range questions {
		if q.Kind == approval.Egress {
			k.Waiting = append(k.Waiting, waiting{q, name, client})
		}
	}
	for _, g := range grants {
		if g.Question.Kind == approval.Egress {
			k.Approved = append(k.Approved, approved{g, name, client})
		}
	}
	return nil
}
