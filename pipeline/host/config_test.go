package host_test

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

type hostResult struct {
	pipeline.Outcome
	host.ExecEnd
}

type contentResult struct {
	pipeline.Outcome
	host.FileContent
}

type writtenResult struct {
	pipeline.Outcome
	host.Written
}

type listingResult struct {
	pipeline.Outcome
	host.Listing
}

func hostExec(ctx context.Context, p *pipeline.Pipeline, q host.Exec) (hostResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return hostResult{res, a}, err
}

func readHostFile(ctx context.Context, p *pipeline.Pipeline, q host.ReadFile) (contentResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return contentResult{res, a}, err
}

func writeHostFile(ctx context.Context, p *pipeline.Pipeline, q host.WriteFile) (writtenResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return writtenResult{res, a}, err
}

func copyHostFile(ctx context.Context, p *pipeline.Pipeline, q host.CopyFile) (writtenResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return writtenResult{res, a}, err
}

func listHostDirectory(ctx context.Context, p *pipeline.Pipeline, q host.ListDirectory) (listingResult, error) {
	a, res, err := pipeline.Do(ctx, p, q)
	return listingResult{res, a}, err
}
