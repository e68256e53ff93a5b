package docker

import (
	"context"
	"errors"
	"io"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

const (
	probeTimeout = 2 * time.Second        // how long a socket may take to answer
	retryPause   = 300 * time.Millisecond // before a second attempt
)

// retry calls f, and once more if the first call failed by chance. Only for calls that may be repeated.
func retry(ctx context.Context, f func() error) error {
	err := f()
	if !isTemporary(err) || !engine.Pause(ctx, retryPause) {
		return err
	}
	return f()
}

// isTemporary reports whether an error is one of a daemon that stops or starts: no connection, one that was cut before
// the answer, or an answer about the daemon and not about the request.
func isTemporary(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return client.IsErrConnectionFailed(err) || errdefs.IsUnavailable(err) || errdefs.IsInternal(err)
}

// gotResponse reports whether the engine has answered the request, if only with an error. A proxy may answer in its
// place that it is unavailable.
func gotResponse(err error) bool {
	return err == nil || !client.IsErrConnectionFailed(err) && !errdefs.IsUnavailable(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// sendOnce calls f, and reports whether its request was sent: if not, it has had no effect.
func sendOnce(ctx context.Context, f func(context.Context) error) (bool, error) {
	var out atomic.Bool
	err := f(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { out.Store(true) }}))
	return out.Load(), err
}

// isEOF reports whether an error is the end of a stream, clean or not.
func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
