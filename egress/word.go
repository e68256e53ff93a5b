package egress

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// pause is how long a client has to be silent in the middle of a line to be taken for one that waits for
// an answer, in a protocol whose messages don't end with a line.
const pause = 200 * time.Millisecond

const whyLate = "the server has the beginning of this already, since there was a pause behind it, and now it is a request: " +
	"send the first line at once"

// waits says whether the client may be waiting for an answer already: to the beginning of a line of text,
// on a port on which HTTP is not expected.
func (o *prelude) waits() bool {
	if !o.words || len(o.held) == o.sent {
		return false
	}
	s, _ := sniffTLS(o.held)
	text := bytes.TrimLeft(o.held, blanks)
	method := text[:len(text)-len(bytes.TrimLeft(text, tokenBytes))]
	request := len(method) < len(text) && slices.Contains(methods[:], strings.ToUpper(string(method)))
	return s == protoOther && len(text) > 0 && !request
}

// show sends the server what it has not seen of a line that has not ended. It is no request before it
// has, and does not end without being looked at.
func (o *prelude) show() error {
	<-o.dialed
	if o.err != nil {
		return o.err
	}
	n, err := o.server.Write(o.held[o.sent:])
	o.sent += n
	o.c.counts.sent.Add(int64(n))
	o.c.touch()
	return err
}
