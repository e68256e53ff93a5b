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
	keepAlive     = 5 * time.Second        // interval of notifications of a silent call: clients have timeouts
	maxProgress   = 400                    // bytes of a line
)

// progress sends a client the last line of a call's output, at most ten times a second, if the client asked for
// progress. The reported value is the elapsed seconds, since a program's total is unknown. A nil progress sends
// nothing.
type progress struct {
	send     func(seconds float64, message string)
	began    time.Time
	interval time.Duration // keepAlive, or a test's

	mu    sync.Mutex
	line  string
	waits []string      // repeated while the call is silent
	news  chan struct{} // has room for one

	end  chan struct{}
	done chan struct{}
}

// startProgress starts sending progress until stop. It returns nil if the client did not ask for progress.
func startProgress(m *Message) *progress {
	token := m.Called.Meta.ProgressToken
	if token == nil || string(token) == "null" {
		return nil
	}
	return newProgress(keepAlive, func(seconds float64, message string) {
		if m.progressEnded.Load() {
			return
		}
		// A client that does not read loses progress first, which is not an error.
		m.stream.notify("notifications/progress",
			mcp.NotificationParams{AdditionalFields: map[string]any{"progressToken": token, "progress": seconds, "message": message}})
	})
}

func newProgress(alive time.Duration, send func(seconds float64, message string)) *progress {
	p := &progress{send: send, began: time.Now(), interval: alive,
		news: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	go p.sendUpdates()
	return p
}

// stop sends the last line if it is unsent, and returns when nothing more is sent.
func (p *progress) stop() {
	if p != nil {
		close(p.end)
		<-p.done
	}
}

// Report sends a line of output, or the name of the current step.
func (p *progress) Report(line string) {
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

// ReportWaiting sends the reason for waiting, repeatedly, until release is called.
func (p *progress) ReportWaiting(line string) (release func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	p.waits = append(p.waits, line)
	p.mu.Unlock()
	p.Report(line)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(p.waits, line)
		p.waits = slices.Delete(p.waits, i, i+1)
	}
}

func (p *progress) sendUpdates() {
	defer close(p.done)
	quiet := time.NewTimer(p.interval)
	defer quiet.Stop()
	for {
		select {
		case <-p.end:
			select {
			case <-p.news:
				p.sendUpdate(false)
			default:
			}
			return
		case <-p.news:
			p.sendUpdate(false)
			select {
			case <-time.After(progressPause):
			case <-p.end:
			}
		case <-quiet.C:
			p.sendUpdate(true)
		}
		quiet.Reset(p.interval)
	}
}

// sendUpdate sends the last line or, for a silent call, the reason for waiting or the elapsed time.
func (p *progress) sendUpdate(silent bool) {
	p.mu.Lock()
	line := p.line
	if n := len(p.waits); silent && n > 0 {
		line = p.waits[n-1]
	} else if silent {
		line = fmt.Sprintf("running for %.0f s", p.seconds())
	}
	p.mu.Unlock()
	p.send(p.seconds(), safetext.Model(safetext.Clip(line, maxProgress)))
}

func (p *progress) seconds() float64 { return time.Since(p.began).Seconds() }

// Lines returns a writer that reports the last line written to it, or nil if the client did not ask for progress.
func (p *progress) Lines() io.Writer {
	if p == nil {
		return nil
	}
	return &lineWriter{to: p}
}

// lineWriter reports the last line written. A line without a newline counts: prompts and progress bars have none.
type lineWriter struct {
	to      *progress
	partial []byte // beginning of an unfinished line
}

func (w *lineWriter) Write(b []byte) (int, error) {
	all := append(w.partial, b...)
	last := bytes.TrimRight(all, "\r\n")
	if i := bytes.LastIndexAny(last, "\r\n"); i >= 0 {
		last = last[i+1:]
	}
	w.to.Report(string(last[:min(len(last), 4*maxProgress)]))
	if len(last) < len(all) { // the line is complete
		last = nil
	}
	w.partial = append([]byte(nil), last[:min(len(last), maxProgress)]...)
	return len(b), nil
}
