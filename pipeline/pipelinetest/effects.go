package pipelinetest

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Doing is an effect of any kind, to be had.
type Doing func(context.Context, *pipeline.Pipeline) (pipeline.Outcome, error)

func DoingOf[T any](e pipeline.Effect[T]) Doing {
	return func(ctx context.Context, p *pipeline.Pipeline) (pipeline.Outcome, error) {
		_, res, err := pipeline.Do(ctx, p, e)
		return res, err
	}
}

func OpenSession(ctx context.Context, p *pipeline.Pipeline, q session.New) (session.Info, error) {
	info, _, err := pipeline.Do(ctx, p, q)
	return info, err
}

func CloseSession(ctx context.Context, p *pipeline.Pipeline, namespace, id string) (session.Info, error) {
	info, _, err := pipeline.Do(ctx, p, session.End{Namespace: namespace, Session: id})
	return info, err
}

func SetLimits(ctx context.Context, p *pipeline.Pipeline, namespace, id string, b pipeline.Bounds) (pipeline.Bounds, error) {
	now, _, err := pipeline.Do(ctx, p, session.NewLimits{Namespace: namespace, Session: id, Bounds: b})
	return now, err
}
