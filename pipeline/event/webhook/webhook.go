// Package webhook posts events to an address of the operator, signed according to the Standard Webhooks
// specification: https://www.standardwebhooks.com.
//
// Each event is a POST of its own, whose body is {"type": name, "timestamp": RFC 3339, "data": {"seq", "run",
// "namespace", "details"}}. A 2xx answer accepts it. After no answer, 408, 425, 429 and 5xx it is tried again, with
// the same webhook-id, for about a minute; any other answer, including redirects, loses the event, and 410 ends the
// posting. Several posts run at once, so they may arrive out of order: seq has the order. Events that can't be posted
// in time are dropped, counted and logged; nothing waits for them, and the audit log has them all.
package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// Config names the receiver and its events.
type Config struct {
	URL   string
	Kinds []string // names of events, or [event.All] alone
	// Secret returns the bytes that sign posts; nil leaves posts unsigned. It is called at the start, and later at
	// most once a minute, so that a new secret needs no restart. The returned bytes are overwritten after use.
	Secret  func() ([]byte, error)
	Bus     *event.Bus
	Log     *slog.Logger   // nil logs nothing
	Roots   *x509.CertPool // verify the server's certificate; nil: the system roots
	Version string         // of sandboxmcp, for the User-Agent
}

// Bounds of the queue and of the tries. An event has at most 32 KiB.
const (
	queued    = 1000 // events waiting to be posted
	answering = 10 * time.Second
	tries     = 8
)

// pace has the times after which a sender gives up.
type pace struct {
	first, longest time.Duration // between two tries of one event
	answer         time.Duration // for one try
	grace          time.Duration // for waiting events at Close
	report         time.Duration // between two log lines about lost events
}

var usual = pace{first: 500 * time.Millisecond, longest: 30 * time.Second, answer: answering, grace: 3 * time.Second,
	report: 10 * time.Second}

// Sender posts events until it is closed.
type Sender struct {
	c      Config
	pace   pace
	prefix string // prefix of this sender's webhook ids
	key    *key
	client *http.Client
	sub    *event.Subscription

	stopping chan struct{}   // closed when Close begins: no more tries
	postCtx  context.Context // context of all posts; ends with the grace period of Close
	end      func()
	done     chan struct{} // closed when no post is running
	workers  sync.WaitGroup
	reporter sync.WaitGroup
	closed   sync.Once

	sent, lost atomic.Uint64
	gone       atomic.Bool // the receiver answered 410
	mu         sync.Mutex
	why        string // error of the last loss
}

// Start begins posting. It fails only on an invalid Config: a bad address, an unknown kind of event, an unreadable
// secret. An unreachable receiver is not an error.
func Start(c Config) (*Sender, error) { return start(c, usual) }

func start(c Config, p pace) (*Sender, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	to, err := url.Parse(c.URL)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" || to.User != nil {
		// don't quote it: it may contain a token
		return nil, errors.New("the address of the webhook is not a URL like https://hook.example.com/path")
	}
	switch all := slices.Equal(c.Kinds, []string{event.All}); {
	case all:
		c.Kinds = nil
	case len(c.Kinds) == 0:
		return nil, fmt.Errorf("no kinds of events are configured: name some, or %q for all", event.All)
	}
	if err := event.Check(c.Kinds); err != nil {
		return nil, err
	}
	k, err := newKey(c.Secret)
	if err != nil {
		return nil, err
	}
	if to.Scheme == "http" && !loopback(to.Hostname()) {
		c.Log.Warn("webhook: events are posted without encryption", "host", to.Host)
	}
	s := &Sender{c: c, pace: p, prefix: "evt_" + rand.Text() + "_", key: k, client: event.Client(c.Roots, p.answer),
		stopping: make(chan struct{}), done: make(chan struct{})}
	s.postCtx, s.end = context.WithCancel(context.Background())
	s.sub, _, _ = c.Bus.Listen(event.Filter{Namespace: event.All, Kinds: c.Kinds}, queued, 0)
	for range event.AtOnce {
		s.workers.Go(s.sendLoop)
	}
	s.reporter.Go(s.report)
	return s, nil
}

// Close posts waiting events, for at most three seconds, and ends; the rest is dropped. It may be called more than
// once. Calling it before the bus is closed only makes it faster.
func (s *Sender) Close() {
	s.closed.Do(func() {
		s.sub.Cancel()
		close(s.stopping)
		deadline := time.AfterFunc(s.pace.grace, s.end)
		s.workers.Wait()
		deadline.Stop()
		s.end()
		close(s.done)
		s.reporter.Wait()
		s.client.CloseIdleConnections()
	})
}

// Stats counts the events that were posted and dropped.
type Stats struct {
	Sent    uint64 `json:"sent"`
	Dropped uint64 `json:"dropped"` // for lack of room, or because the receiver did not accept them
}

// Stats returns the counts.
func (s *Sender) Stats() Stats {
	return Stats{Sent: s.sent.Load(), Dropped: s.lost.Load() + s.sub.Missed()}
}

// sendLoop posts one event after another.
func (s *Sender) sendLoop() {
	for e := range s.sub.Events() {
		if s.gone.Load() || s.postCtx.Err() != nil {
			s.lost.Add(1)
			continue
		}
		s.deliver(e)
	}
}

// report logs lost events, at intervals.
func (s *Sender) report() {
	logged := uint64(0)
	say := func() {
		n := s.Stats().Dropped
		if n == logged {
			return
		}
		s.mu.Lock()
		why := s.why
		s.mu.Unlock()
		s.c.Log.Warn("webhook: events were not posted", "events", n-logged, "since_start", n, "why", why)
		logged = n
	}
	for every := time.NewTicker(s.pace.report); ; {
		select {
		case <-every.C:
			say()
		case <-s.done:
			every.Stop()
			say()
			return
		}
	}
}
