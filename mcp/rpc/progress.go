package rpc

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

const (
	progressPause = 100 * time.Millisecond // between two notifications
	keepAlive     = 5 * time.Second        // after which a silent call says that it lives: clients have timeouts
	maxProgress   = 400                    // bytes of a line
)

// progress tells a client how a call goes on, if it asked for that: the last line of output, at most
// ten times a second. Its progress is the seconds that have passed, since nobody knows how much of
// a program is done. A nil progress tells nobody.
type progress struct {
	send  func(seconds float64, message string)
	began time.Time
	alive time.Duration // keepAlive

	mu   sync.Mutex
	line string
	held []string      // what it waits for, which is said again instead of that it lives
	news chan struct{} // has room for one

	end  chan struct{}
	done chan struct{}
}

// startProgress starts telling the client, until stop. It returns nil if the client did not ask.
func startProgress(m *Message) *progress {
	token := m.Called.Meta.ProgressToken
	if token == nil || string(token) == "null" {
		return nil
	}
	return newProgress(keepAlive, func(seconds float64, message string) {
		if m.quiet.Load() {
			return
		}
		// A client that does not read loses these first: that is no error.
		m.to.notify("notifications/progress",
			mcp.NotificationParams{AdditionalFields: map[string]any{"progressToken": token, "progress": seconds, "message": message}})
	})
}

func newProgress(alive time.Duration, send func(seconds float64, message string)) *progress {
	p := &progress{send: send, began: time.Now(), alive: alive,
		news: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	go p.run()
	return p
}

// stop returns when nothing more is sent. The last line has been by then.
func (p *progress) stop() {
	if p != nil {
		close(p.end)
		<-p.done
	}
}

// Note notes a line of output, or the step under way.
func (p *progress) Note(line string) {
	line = strings.TrimSpace(line)
	if p == nil || line == "" {
		return
	}
	p.mu.Lock()
	p.line = line
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// Hold tells the client what the call waits for, again and again, until release is called.
func (p *progress) Hold(line string) (release func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	p.held = append(p.held, line)
	p.mu.Unlock()
	p.Note(line)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(p.held, line)
		p.held = slices.Delete(p.held, i, i+1)
	}
}

func (p *progress) run() {
	defer close(p.done)
	quiet := time.NewTimer(p.alive)
	defer quiet.Stop()
	for {
		select {
		case <-p.end:
			select {
			case <-p.news:
				p.tell(false)
			default:
			}
			return
		case <-p.news:
			p.tell(false)
			select {
			case <-time.After(progressPause):
			case <-p.end:
			}
		case <-quiet.C:
			p.tell(true)
		}
		quiet.Reset(p.alive)
	}
}

// tell tells the last line or, of a call that was silent for a while, what it waits for, or that it lives.
func (p *progress) tell(silent bool) {
	p.mu.Lock()
	line := p.line
	if n := len(p.held); silent && n > 0 {
		line = p.held[n-1]
	} else if silent {
		line = fmt.Sprintf("running for %.0f s", p.seconds())
	}
	p.mu.Unlock()
	p.send(p.seconds(), safetext.Model(safetext.Clip(line, maxProgress)))
}

func (p *progress) seconds() float64 { return time.Since(p.began).Seconds() }

// Lines returns a writer that reports the last line written to it, or nil if the client did not ask.
func (p *progress) Lines() io.Writer {
	if p == nil {
		return nil
	}
	return &lineWriter{to: p}
}

// lineWriter finds the last line of what is written. One without an end counts, too: prompts and
// progress bars have none.
type lineWriter struct {
	to      *progress
	partial []byte // of a line that goes on
}

func (w *lineWriter) Write(b []byte) (int, error) {
	all := append(w.partial, b...)
	last := bytes.TrimRight(all, "\r\n")
	if i := bytes.LastIndexAny(last, "\r\n"); i >= 0 {
		last = last[i+1:]
	}
	w.to.Note(string(last[:min(len(last), 4*maxProgress)]))
	if len(last) < len(all) { // it has ended
		last = nil
	}
	w.partial = append([]byte(nil), last[:min(len(last), maxProgress)]...)
	return len(b), nil
}
