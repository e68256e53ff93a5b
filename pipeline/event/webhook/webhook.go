// Package webhook posts events to an address that the operator names, signed as the Standard Webhooks
// specification says: https://www.standardwebhooks.com.
//
// Each event is a POST of its own, whose body is {"type": name, "timestamp": RFC 3339, "data": {"seq",
// "run", "namespace", "details"}}. An answer of 2xx takes it. No answer, 408, 425, 429 and 5xx are tried
// again, with the same webhook-id, for about a minute; anything else, redirects among it, loses that
// event, and 410 ends the posting. Several are on their way at once, so they may arrive in another
// order: seq has theirs. What can't be posted in time is dropped, counted and logged; nothing waits
// for it, and the audit log has it all.
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

// Config names the receiver, and what it is sent.
type Config struct {
	URL   string
	Kinds []string // names of events, or [event.All] alone
	// Secret returns the bytes that posts are signed with; nil: they are not signed. It is asked at the
	// start, and again at most once a minute, so that a new secret is used without a restart. The
	// bytes are the caller's to give away: they are overwritten after use.
	Secret  func() ([]byte, error)
	Bus     *event.Bus
	Log     *slog.Logger   // nil says nothing
	Roots   *x509.CertPool // that the server's certificate is verified with; nil are the machine's
	Version string         // of sandboxmcp, for the User-Agent
}

// Bounds of what is kept and how long it is tried. An event has at most 32 KiB.
const (
	queued    = 1000 // events that wait to be posted
	answering = 10 * time.Second
	tries     = 8
)

// pace is how fast a sender gives up.
type pace struct {
	first, longest time.Duration // between two tries of one event
	answer         time.Duration // for one try
	grace          time.Duration // for what waits at Close
	report         time.Duration // between two lines of the log about what was lost
}

var usual = pace{first: 500 * time.Millisecond, longest: 30 * time.Second, answer: answering, grace: 3 * time.Second, report: 10 * time.Second}

// Sender posts events until it is closed.
type Sender struct {
	c      Config
	pace   pace
	prefix string // of the ids of what this sender posts
	key    *key
	client *http.Client
	sub    *event.Subscription

	stopping chan struct{}   // closed when Close begins: nothing is tried again
	postCtx  context.Context // of all posts; ends when the grace period of Close is over
	end      func()
	done     chan struct{} // closed when no post is under way any more
	workers  sync.WaitGroup
	reporter sync.WaitGroup
	closed   sync.Once

	sent, lost atomic.Uint64
	gone       atomic.Bool // the receiver wants no more
	mu         sync.Mutex
	why        string // of the last loss
}

// Start begins to post. Its errors are about c: an address that can't be, a kind that there is not, a
// secret that can't be had. That nobody answers is none.
func Start(c Config) (*Sender, error) { return start(c, usual) }

func start(c Config, p pace) (*Sender, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	to, err := url.Parse(c.URL)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" || to.User != nil {
		return nil, errors.New("the address of the webhook is not one like https://hook.example.com/path") // it may hold a token: don't repeat it
	}
	switch all := slices.Equal(c.Kinds, []string{event.All}); {
	case all:
		c.Kinds = nil
	case len(c.Kinds) == 0:
		return nil, fmt.Errorf("it names no kind of events, and nothing would be posted: %q is all", event.All)
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
	s := &Sender{c: c, pace: p, prefix: "evt_" + rand.Text() + "_", key: k, client: event.Client(c.Roots, p.answer), stopping: make(chan struct{}), done: make(chan struct{})}
	s.postCtx, s.end = context.WithCancel(context.Background())
	s.sub, _, _ = c.Bus.Listen(event.Filter{Namespace: event.All, Kinds: c.Kinds}, queued, 0)
	for range event.AtOnce {
		s.workers.Go(s.sendLoop)
	}
	s.reporter.Go(s.report)
	return s, nil
}

// Close posts what waits, for at most three seconds, and ends. What is left then is dropped. It may be
// called more than once, and must be before the bus is closed only to be quick.
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
	Dropped uint64 `json:"dropped"` // for lack of room, and because nobody took them
}

// Stats returns them.
func (s *Sender) Stats() Stats {
	return Stats{Sent: s.sent.Load(), Dropped: s.lost.Load() + s.sub.Missed()}
}

// sendLoop posts one event after the other.
func (s *Sender) sendLoop() {
	for e := range s.sub.Events() {
		if s.gone.Load() || s.postCtx.Err() != nil {
			s.lost.Add(1)
			continue
		}
		s.deliver(e)
	}
}

// report says in the log what was lost, and not too often.
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
