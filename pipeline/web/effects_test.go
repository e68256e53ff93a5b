package web

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

type fetchedResult struct {
	pipeline.Outcome
	Fetched
}

type hitsResult struct {
	pipeline.Outcome
	Hits
}

type browsedResult struct {
	pipeline.Outcome
	Browsed
}

func fetchPage(ctx context.Context, p *pipeline.Pipeline, q Fetch) (fetchedResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return fetchedResult{res, a}, err
}

func searchWeb(ctx context.Context, p *pipeline.Pipeline, q Search) (hitsResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return hitsResult{res, a}, err
}

func browsePage(ctx context.Context, p *pipeline.Pipeline, q Browse) (browsedResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return browsedResult{res, a}, err
}
