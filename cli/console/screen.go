package console

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// drawing is the screen of a program that has the terminal, in raw mode, for itself.
type drawing struct {
	*terminal.ScreenFilter
	redraw func() // has the program draw its screen again
}

// AttendScreen is Attend for a program that has the terminal, in raw mode, for itself. A question replaces the program's
// screen until one key answers it.
func (t *Console) AttendScreen(q *run.Request, b *approval.Broker, screen *terminal.ScreenFilter, redraw func()) {
	t.drawn = &drawing{screen, redraw}
	t.Attend(q, b)
}

// poseOverScreen shows a question in place of the program's screen and returns the answer.
func (t *Console) poseOverScreen(ctx context.Context, q approval.Question) (bool, error) {
	leave, back, drawsAgain := t.drawn.Suspend()
	defer func() {
		_ = t.tty.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(t.tty, back)
		if drawsAgain {
			t.drawn.redraw()
		}
	}()
	text := fmt.Sprintf("sandboxmcp: %s wants to connect to %s\r\nallow it until it ends? Press y for yes, n for no. ",
		cmp.Or(terminal.Visible(q.Client), "the program"), terminal.Visible(q.What))
	if !t.writeText(ctx, leave+text) {
		return false, io.ErrClosedPipe
	}
	t.collectEarly(ctx)
	return t.readKey(ctx)
}

// readKey reads until a key alone is an answer: y is yes, n and Escape are no. Other input is dropped, and so are keys that
// arrive together, as pasted text and the answers of terminals do.
func (t *Console) readKey(ctx context.Context) (bool, error) {
	defer t.bindDeadlines(ctx)()
	for b := make([]byte, 4096); ; {
		n, err := t.tty.Read(b)
		if n == 1 {
			switch b[0] {
			case 'y', 'Y':
				return true, nil
			case 'n', 'N', 0x1b:
				return false, nil
			}
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			return false, err
		}
	}
}
