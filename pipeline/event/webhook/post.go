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

// deliver posts e until somebody takes it, or there is no hope.
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

// backOff returns how long to wait after the given try: twice as long each time, a part of it by chance so
// that not all come back at once, and no less than the receiver has asked for.
func (s *Sender) backOff(try int, asked time.Duration) time.Duration {
	d := min(s.pace.first<<(try-1), s.pace.longest)
	return max(d/2+rand.N(d/2+1), min(asked, s.pace.longest))
}

// sleep reports whether there is time for another try.
func (s *Sender) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.stopping:
		return false
	}
}

// never is a wait after which nobody need try again.
const never = -1

// post tries once. With an error it returns how long the receiver wants to be left alone, or never.
func (s *Sender) post(id string, body []byte) (wait time.Duration, err error) {
	req, err := s.request(id, body)
	if err != nil {
		return never, err
	}
	resp, err := s.client.Do(req)
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the address may hold a token
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
		return nil, errors.New("make the request: the address can't be used")
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sandboxmcp/"+s.c.Version)
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	if s.key != nil {
		key, err := s.key.current()
		if err != nil {
			s.c.Log.Warn("webhook: the secret of before is used on", "why", err)
		}
		req.Header.Set("webhook-signature", sign(key, id, now, body))
	}
	return req, nil
}

// checkResponse returns the error in a receiver's answer, and how long to wait before the next try.
func (s *Sender) checkResponse(resp *http.Response) (wait time.Duration, err error) {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return 0, nil
	case code == http.StatusGone:
		if !s.gone.Swap(true) {
			s.c.Log.Error("webhook: the receiver wants no more events (410 Gone), and gets none until the next start")
		}
		return never, errors.New("the receiver wants no more events")
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(min(max(0, seconds), 3600)) * time.Second, fmt.Errorf("the receiver says %d %s", code, http.StatusText(code))
	case code >= 300 && code < 400:
		return never, fmt.Errorf("the receiver says %d, and redirects are not followed: configure the address that it leads to", code)
	default:
		return never, fmt.Errorf("the receiver says %d %s", code, http.StatusText(code))
	}
}
