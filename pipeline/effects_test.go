package pipeline

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// doer is a Pipeline, or what has one.
type doer interface{ self() *Pipeline }

func (p *Pipeline) self() *Pipeline { return p }

// doing is an effect of any kind, to be had.
type doing func(context.Context, *Pipeline) (Outcome, error)

func doingOf[T any](e Effect[T]) doing {
	return func(ctx context.Context, p *Pipeline) (Outcome, error) {
		_, res, err := Do(ctx, p, e)
		return res, err
	}
}

// Results with their answers, as tests look at both.
type (
	fetchedResult struct {
		Outcome
		Fetched
	}
	hitsResult struct {
		Outcome
		Hits
	}
	browsedResult struct {
		Outcome
		Browsed
	}
	hostResult struct {
		Outcome
		HostEnd
	}
	contentResult struct {
		Outcome
		HostContent
	}
	writtenResult struct {
		Outcome
		HostWritten
	}
	listingResult struct {
		Outcome
		HostListing
	}
)

func fetchPage(ctx context.Context, p doer, q Fetch) (fetchedResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return fetchedResult{res, a}, err
}

func search(ctx context.Context, p doer, q Search) (hitsResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return hitsResult{res, a}, err
}

func browsePage(ctx context.Context, p doer, q Browse) (browsedResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return browsedResult{res, a}, err
}

func hostExec(ctx context.Context, p doer, q HostCommand) (hostResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return hostResult{res, a}, err
}

func readHostFile(ctx context.Context, p doer, q HostRead) (contentResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return contentResult{res, a}, err
}

func writeHostFile(ctx context.Context, p doer, q HostWrite) (writtenResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return writtenResult{res, a}, err
}

func copyHostFile(ctx context.Context, p doer, q HostCopy) (writtenResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return writtenResult{res, a}, err
}

func listHostDirectory(ctx context.Context, p doer, q HostList) (listingResult, error) {
	a, res, err := Do(ctx, p.self(), q)
	return listingResult{res, a}, err
}

func openSession(ctx context.Context, p doer, q NewSession) (session.Info, error) {
	info, _, err := Do(ctx, p.self(), q)
	return info, err
}

func closeSession(ctx context.Context, p doer, namespace, id string) (session.Info, error) {
	info, _, err := Do(ctx, p.self(), EndSession{namespace, id})
	return info, err
}

func setLimits(ctx context.Context, p doer, namespace, id string, b Bounds) (Bounds, error) {
	now, _, err := Do(ctx, p.self(), NewLimits{namespace, id, b})
	return now, err
}
