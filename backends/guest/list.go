package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// ListSlots bounds the large lists of files that the server holds in memory for all sandboxes together.
type ListSlots chan struct{}

// NewListSlots returns slots for all agents of a server.
func NewListSlots() ListSlots { return make(ListSlots, maxLarge) }

const (
	maxLarge = 4       // large lists at once
	small    = 1 << 20 // bytes of a list that needs no slot
)

// errLong is the error of a list that is too long.
var errLong = errorf(TooMany, "the list has more than %d MiB: list its directories one by one", maxList>>20)

// List describes the entries of a directory, depth levels deep. A large list holds its slot until release.
func (c *Client) List(ctx context.Context, path string, depth int) (list []Entry, release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	res, err := c.send(ctx, http.MethodGet, "/list", url.Values{"path": {path}, "depth": {strconv.Itoa(depth)}}, nil)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	in := &listReader{Reader: res.Body, ctx: ctx, places: c.large}
	if list, err = readList(in); err != nil {
		in.release()
		if own, is := errors.AsType[*Error](err); is {
			return nil, nil, own
		}
		return nil, nil, fmt.Errorf("read the answer of the agent in the sandbox: %w", err)
	}
	return list, in.release, nil
}

// readList decodes the entries one by one, so that the whole text is never in memory.
func readList(in io.Reader) (list []Entry, err error) {
	d := json.NewDecoder(in)
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("it is not a list: %v", err)
	}
	for d.More() {
		var e Entry
		if err := d.Decode(&e); err != nil {
			return nil, err
		}
		if len(list) == maxEntries {
			return nil, errLong
		}
		list = append(list, e)
	}
	_, err = d.Token()
	return list, err
}

// listReader reads a list. It waits for a slot before it reads more than a small list has, and reads no more than
// maxList.
type listReader struct {
	io.Reader
	ctx    context.Context
	places ListSlots
	n      int
	held   bool
}

// Read implements [io.Reader].
func (l *listReader) Read(b []byte) (int, error) {
	if l.n >= maxList {
		return 0, errLong
	}
	if l.n >= small && !l.held {
		select {
		case l.places <- struct{}{}:
			l.held = true
		case <-l.ctx.Done():
			return 0, errorf(TooMany, "too many long lists at once: try again later, or list less")
		}
	}
	n, err := l.Reader.Read(b)
	l.n += n
	return n, err
}

func (l *listReader) release() {
	if l.held {
		l.held = false
		<-l.places
	}
}
