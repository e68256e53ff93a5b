package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// message is the body of a post.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      details   `json:"data"`
}

type details struct {
	Seq       uint64         `json:"seq"`
	Run       string         `json:"run,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
}

// deliver posts e until the receiver accepts it, or further tries are useless.
func (s *Sender) deliver(e event.Event) {
	body, err := json.Marshal(message{e.Name, e.Time.UTC(), details{e.Seq, e.Run, e.Namespace, e.Data}})
	if err != nil {
		s.dropEvent(fmt.Errorf("write event %d as JSON: %w", e.Seq, err))
		return
	}
	id := s.prefix + strconv.FormatUint(e.Seq, 10)
	for try := 1; ; try++ {
		wait, err := s.post(id, body)
		switch {
		case err == nil:
			s.sent.Add(1)
			return
		case wait < 0 || try == tries || s.gone.Load() || !s.sleep(s.backOff(try, wait)):
			s.dropEvent(err)
			return
		}
	}
}

func (s *Sender) dropEvent(err error) {
	s.lost.Add(1)
	s.mu.Lock()
	s.why = err.Error()
	s.mu.Unlock()
}

// backOff returns the wait after a failed try: it doubles each time, is partly random so that not all senders return
// at once, and is at least the time that the receiver requested.
func (s *Sender) backOff(try int, asked time.Duration) time.Duration {
	d := min(s.pace.first<<(try-1), s.pace.longest)
	return max(d/2+rand.N(d/2+1), min(asked, s.pace.longest))
}

// sleep waits, and returns false if the sender closes meanwhile.
func (s *Sender) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.stopping:
		return false
	}
}

// never, as a wait, means that a further try is useless.
const never = -1

// post tries once. With an error it returns the wait that the receiver requested, or never.
func (s *Sender) post(id string, body []byte) (wait time.Duration, err error) {
	req, err := s.request(id, body)
	if err != nil {
		return never, err
	}
	resp, err := s.client.Do(req)
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // drop the address, which may contain a token
	}
	if err != nil {
		return 0, fmt.Errorf("post: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, event.MaxAnswer))
	resp.Body.Close()
	return s.checkResponse(resp)
}

func (s *Sender) request(id string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(s.postCtx, http.MethodPost, s.c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("create the request: the address is invalid")
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sandboxmcp/"+s.c.Version)
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	if s.key != nil {
		key, err := s.key.current()
		if err != nil {
			s.c.Log.Warn("webhook: the secret can't be read, so the previous one stays in use", "why", err)
		}
		req.Header.Set("webhook-signature", sign(key, id, now, body))
	}
	return req, nil
}

// checkResponse returns the error in a receiver's answer, and the wait before the next try.
func (s *Sender) checkResponse(resp *http.Response) (wait time.Duration, err error) {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return 0, nil
	case code == http.StatusGone:
		if !s.gone.Swap(true) {
			s.c.Log.Error("webhook: the receiver refused further events (410 Gone), so none are sent until the next start")
		}
		return never, errors.New("the receiver refused further events")
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(min(max(0, seconds), 3600)) * time.Second, fmt.Errorf("the receiver answered %d %s", code, http.StatusText(code))
	case code >= 300 && code < 400:
		return never, fmt.Errorf("the receiver answered %d, and redirects are not followed: configure the target address", code)
	default:
		return never, fmt.Errorf("the receiver answered %d %s", code, http.StatusText(code))
	}
}
