package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// maxLine bounds one line of a stream, in bytes: an event has at most 32 KiB before it is written as JSON.
const maxLine = 1 << 20

// Line is a line of a stream of events: an event, or without an event's number a notice.
type Line struct {
	event.Event
	Notice
}

// Events returns the events that the server remembers, and with q.Follow those that come, until ctx
// ends or the server does. The last pair may be an error; that ctx has ended is none.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		body, err := streamEvents.Open(ctx, c.endless(), q)
		if err != nil {
			if ctx.Err() == nil {
				yield(Line{}, err)
			}
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			line, err := readLine(lines.Bytes())
			if !yield(line, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			yield(Line{}, err)
		}
	}
}

// readLine reads one line of a stream. Numbers stay as they were written.
func readLine(text []byte) (line Line, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&line); err != nil {
		return Line{}, fmt.Errorf("what the server says is no event: %w", err)
	}
	return line, nil
}
