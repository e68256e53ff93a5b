package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/duplex"
)

const (
	headerEntry = "Entry"
	maxStreams  = 512 // requests to one agent at once
	// StartTimeout bounds the agent's start; answerTimeout bounds the wait for an answer's beginning on a busy
	// machine, and a whole list.
	StartTimeout  = 30 * time.Second
	answerTimeout = 60 * time.Second
)

// Client is the server's side of an agent. Its methods may be called concurrently.
type Client struct {
	http  *http.ClientConn
	large ListSlots
	kill  context.CancelFunc
	done  chan struct{} // closed when the agent has ended
	err   error         // the reason
}

// Start starts an agent in a sandbox whose Spec has Guest. The agent ends with the sandbox. Its large lists share
// the slots with all agents that get the same ListSlots.
func Start(ctx context.Context, sandbox backends.Sandbox, large ListSlots) (*Client, error) {
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{large: large, kill: kill, done: make(chan struct{})}
	opened := make(chan io.ReadWriteCloser, 1)
	go func() {
		defer close(c.done)
		r, err := sandbox.Exec(life, backends.Command{Args: []string{backends.GuestPath, Argument}, Endless: true,
			Env: []string{"GOMAXPROCS=2", "GOGC=50", "GOMEMLIMIT=48MiB"}},
			backends.Streams{Channel: func(s io.ReadWriteCloser) { opened <- s }})
		if c.err = err; err == nil {
			c.err = fmt.Errorf("the agent in the sandbox ended: %s", r.Ended)
		}
		kill()
		select {
		case s := <-opened:
			s.Close()
		default:
		}
	}()
	select {
	case s := <-opened:
		return c, c.connect(ctx, s)
	case <-c.done:
		return nil, c.err
	case <-ctx.Done():
		kill()
		<-c.done
		return nil, context.Cause(ctx)
	}
}

// connect opens HTTP/2 on the channel.
func (c *Client) connect(ctx context.Context, s io.ReadWriteCloser) (err error) {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	c.http, err = duplex.Client(ctx, duplex.New(s), &http.Transport{
		MaxResponseHeaderBytes: 128 << 10, ResponseHeaderTimeout: answerTimeout,
		HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true, MaxReadFrameSize: chunk, MaxReceiveBufferPerStream: 4 * chunk},
	})
	if err != nil {
		c.Close()
		return fmt.Errorf("connect to the agent in the sandbox: %w", err)
	}
	return nil
}

// Ended reports whether the agent has ended.
func (c *Client) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return c.http.Err() != nil
	}
}

// Close ends the agent and waits for its end.
func (c *Client) Close() {
	c.kill()
	<-c.done
}

// send sends a request. A response with an agent's error becomes that error. Closing the body of any other response
// ends the request.
func (c *Client) send(ctx context.Context, method, path string, args url.Values, body io.Reader) (*http.Response, error) {
	query, err := encodeArguments(args)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://guest"+path+"?"+query, body)
	if err != nil {
		return nil, err
	}
	res, err := c.http.RoundTrip(r)
	if err != nil || res.StatusCode == http.StatusOK {
		return res, err
	}
	defer res.Body.Close()
	why := &Error{Reason: Failed, Message: "the agent in the sandbox failed"}
	json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(why)
	return nil, why
}

// encodeArguments returns a request's query, which counts towards the headers that the agent accepts.
func encodeArguments(args url.Values) (query string, err error) {
	size := 0
	for _, values := range args {
		for _, v := range values {
			size += len(v)
		}
	}
	if size <= maxQuery { // encoding a longer query would only use memory
		query = args.Encode()
	}
	if max(size, len(query)) > maxQuery {
		return "", errorf(Invalid, "the paths are too long: a request may have %d bytes of paths, fewer with special characters", maxQuery)
	}
	return query, nil
}

// call sends a request and decodes its answer.
func (c *Client) call(ctx context.Context, method, path string, args url.Values, body io.Reader, answer any) error {
	res, err := c.send(ctx, method, path, args, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(answer); err != nil {
		return fmt.Errorf("read the answer of the agent in the sandbox: %w", err)
	}
	return nil
}

// Stat describes a path.
func (c *Client) Stat(ctx context.Context, path string) (e Entry, err error) {
	err = c.call(ctx, http.MethodGet, "/stat", url.Values{"path": {path}}, nil, &e)
	return e, err
}

// Mkdir makes a directory, with its parents.
func (c *Client) Mkdir(ctx context.Context, path string) (e Entry, err error) {
	err = c.call(ctx, http.MethodPost, "/mkdir", url.Values{"path": {path}}, nil, &e)
	return e, err
}

// Move renames a file or a directory.
func (c *Client) Move(ctx context.Context, from, to string) (e Entry, err error) {
	err = c.call(ctx, http.MethodPost, "/move", url.Values{"path": {from}, "to": {to}}, nil, &e)
	return e, err
}

// Remove removes a file, or a directory with its contents. A missing path is not an error.
func (c *Client) Remove(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodPost, "/remove", url.Values{"path": {path}}, nil, &struct{}{})
}

// Write writes a file.
func (c *Client) Write(ctx context.Context, p FileWrite, content io.Reader) (e Entry, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return e, err
	}
	err = c.call(ctx, http.MethodPut, "/file", url.Values{"put": {string(text)}}, io.NopCloser(content), &e)
	return e, err
}

// Read opens a file. The caller closes content.
func (c *Client) Read(ctx context.Context, path string) (e Entry, content io.ReadCloser, err error) {
	res, err := c.send(ctx, http.MethodGet, "/file", url.Values{"path": {path}}, nil)
	if err != nil {
		return e, nil, err
	}
	head, err := strconv.Unquote(res.Header.Get(headerEntry))
	if err == nil {
		err = json.Unmarshal([]byte(head), &e)
	}
	if err != nil {
		res.Body.Close()
		return e, nil, fmt.Errorf("read the answer of the agent in the sandbox: %w", err)
	}
	return e, res.Body, nil
}

// Watch configures [Client.Watch].
type Watch struct {
	Path      string
	Recursive bool
	Entries   bool // add the entry to each event
}

// Watch calls begun once the directory is watched, and then event for each change, until ctx ends, event returns an
// error or the directory is gone. The function caughtUp returns once event was called for every change made before
// its call.
func (c *Client) Watch(ctx context.Context, w Watch, begun func(caughtUp func(context.Context) error) error,
	event func(Event) error) error {
	args := url.Values{"path": {w.Path}}
	if w.Recursive {
		args.Set("recursive", "1")
	}
	if w.Entries {
		args.Set("entries", "1")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, questions := io.Pipe()
	context.AfterFunc(ctx, func() { in.Close() }) // the transport does not notice the end of ctx while it reads
	res, err := c.send(ctx, http.MethodPost, "/watch", args, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var mu sync.Mutex
	var asked []chan struct{} // in the order of the answers
	caughtUp := func(call context.Context) error {
		answer := make(chan struct{})
		mu.Lock()
		_, err := questions.Write([]byte{'\n'})
		asked = append(asked, answer)
		mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-answer:
			return nil
		case <-call.Done():
			return context.Cause(call)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxLine)
	for first := true; lines.Scan(); first = false {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read an event of the agent in the sandbox: %w", err)
		}
		switch {
		case first:
			err = begun(caughtUp)
		case e == Event{}:
			mu.Lock()
			if len(asked) > 0 { // a program that controls the agent may send unrequested answers
				close(asked[0])
				asked = asked[1:]
			}
			mu.Unlock()
		default:
			err = event(e)
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return lines.Err()
}

// Dial connects to a port of the sandbox's loopback.
func (c *Client) Dial(ctx context.Context, port int) (net.Conn, error) {
	in, out := io.Pipe()
	// The connection outlives the request's context; Close ends it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	res, err := c.send(life, http.MethodPost, "/dial", url.Values{"port": {strconv.Itoa(port)}}, in)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return duplex.New(dialled{res.Body, out, func() {
		out.CloseWithError(net.ErrClosed)
		cancel()
		res.Body.Close()
	}}), nil
}

// dialled is a connection through the agent. It does not support deadlines.
type dialled struct {
	io.Reader
	io.Writer
	close func()
}

// Close implements [io.Closer].
func (d dialled) Close() error {
	d.close()
	return nil
}

// ReasonOf returns the reason of an agent's error; "" for another.
func ReasonOf(err error) string {
	if e, is := errors.AsType[*Error](err); is {
		return e.Reason
	}
	return ""
}
