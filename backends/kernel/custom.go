package kernel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// CustomLanguage is the kernel of a language that an operator configures: a program that reads requests from
// descriptor 3 and writes replies to it, each a JSON object on one line. cli/README.md describes them.
type CustomLanguage struct {
	Language string
	Args     []string
	Source   string // the program reads it from descriptor 3 before the first request
}

// StartCustom is Start for a kernel of an operator's language.
func StartCustom(ctx context.Context, sb backends.Sandbox, own CustomLanguage, as backends.Command) (*Kernel, error) {
	return start(ctx, sb, language{name: own.Language, args: own.Args, driver: own.Source, codec: lineCodec{}}, as)
}

// lineCodec encodes the frames of jsonCodec as lines.
type lineCodec struct{ jsonCodec }

func (lineCodec) driver(source string) ([]byte, error) { return []byte(source), nil }

func (lineCodec) encode(q request) ([]byte, error) {
	frame, err := encodeFrame(q) // ends with its only line feed
	return frame[min(4, len(frame)):], err
}

func (c lineCodec) decode(body []byte) (reply, error) {
	answer, err := c.jsonCodec.decode(body)
	if err == nil && !slices.Contains([]string{"ready", "display", "done"}, answer.Op) {
		err = errors.New("its op is not ready, display or done")
	}
	return answer, err
}

// readLine reads one line as readFrame reads a frame.
func readLine(r io.Reader, c codec, wait func() error) (reply, error) {
	var line []byte
	for waited := false; ; {
		part, err := r.(*bufio.Reader).ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxFrame:
			return reply{}, fmt.Errorf("protocol: a line of more than %d bytes", maxFrame)
		case err == nil:
			answer, err := c.decode(line)
			if err != nil {
				err = fmt.Errorf("protocol: a line that can't be read: %w", err)
			}
			return answer, err
		case err != bufio.ErrBufferFull && len(line) > 0:
			return reply{}, errors.New("protocol: the channel was closed in the middle of a line")
		case err != bufio.ErrBufferFull:
			return reply{}, err
		case len(line) > smallFrame && !waited:
			if waited, err = true, wait(); err != nil {
				return reply{}, err
			}
		}
	}
}

// moreOps are the requests beside "run", each with its purpose.
var moreOps = map[string]string{"set": "set variables", "get": "return the value of a variable", "vars": "list variables"}

// ErrUnsupportedOp is the error of a request that the kernel does not list among its ops.
var ErrUnsupportedOp = errors.New("this language's kernel can't")

// checkOp returns an error unless the kernel supports the request.
func (k *Kernel) checkOp(op string) error {
	if _, own := k.codec.(lineCodec); !own || slices.Contains(k.ops, op) {
		return nil
	}
	return fmt.Errorf("%w %s: its ready message does not list the op %s", ErrUnsupportedOp, moreOps[op], op)
}
