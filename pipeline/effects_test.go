package pipeline

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// doer is a Pipeline, or what stands for one in a test.
type doer interface {
	Do(context.Context, Effect) (Result, error)
}

// Results with their answers, as tests look at both.
type (
	fetchedResult struct {
		Result
		Fetched
	}
	hitsResult struct {
		Result
		Hits
	}
	browsedResult struct {
		Result
		Browsed
	}
	hostResult struct {
		Result
		HostEnd
	}
	contentResult struct {
		Result
		HostContent
	}
	writtenResult struct {
		Result
		HostWritten
	}
	listingResult struct {
		Result
		HostListing
	}
)

// answerOf has an effect, and returns its result with its answer, which is the zero T where there is none.
func answerOf[T any](ctx context.Context, p doer, e Effect) (Result, T, error) {
	res, err := p.Do(ctx, e)
	answer, _ := res.Answer.(T)
	return res, answer, err
}

func fetchPage(ctx context.Context, p doer, q Fetch) (fetchedResult, error) {
	res, a, err := answerOf[Fetched](ctx, p, q)
	return fetchedResult{res, a}, err
}

func search(ctx context.Context, p doer, q Search) (hitsResult, error) {
	res, a, err := answerOf[Hits](ctx, p, q)
	return hitsResult{res, a}, err
}

func browsePage(ctx context.Context, p doer, q Browse) (browsedResult, error) {
	res, a, err := answerOf[Browsed](ctx, p, q)
	return browsedResult{res, a}, err
}

func hostExec(ctx context.Context, p doer, q HostCommand) (hostResult, error) {
	res, a, err := answerOf[HostEnd](ctx, p, q)
	return hostResult{res, a}, err
}

func readHostFile(ctx context.Context, p doer, q HostRead) (contentResult, error) {
	res, a, err := answerOf[HostContent](ctx, p, q)
	return contentResult{res, a}, err
}

func writeHostFile(ctx context.Context, p doer, q HostWrite) (writtenResult, error) {
	res, a, err := answerOf[HostWritten](ctx, p, q)
	return writtenResult{res, a}, err
}

func copyHostFile(ctx context.Context, p doer, q HostCopy) (writtenResult, error) {
	res, a, err := answerOf[HostWritten](ctx, p, q)
	return writtenResult{res, a}, err
}

func listHostDirectory(ctx context.Context, p doer, q HostList) (listingResult, error) {
	res, a, err := answerOf[HostListing](ctx, p, q)
	return listingResult{res, a}, err
}

func openSession(ctx context.Context, p doer, q NewSession) (session.Info, error) {
	_, info, err := answerOf[session.Info](ctx, p, q)
	return info, err
}

func closeSession(ctx context.Context, p doer, namespace, id string) (session.Info, error) {
	_, info, err := answerOf[session.Info](ctx, p, EndSession{namespace, id})
	return info, err
}

func setLimits(ctx context.Context, p doer, namespace, id string, b Bounds) (Bounds, error) {
	_, now, err := answerOf[Bounds](ctx, p, NewLimits{namespace, id, b})
	return now, err
}
