// Package notify shows questions on the desktop of the user that the server runs as, where there is one.
//
// A notification says who asks for what, and the command that answers. It answers nothing itself: a button that
// approves would be one that any program in the session could press for a person, and one that is too easily pressed
// by mistake. What can't be shown is not: questions neither wait for the desktop nor depend on it.
//
// godbus/dbus speaks to the session's bus.
package notify

import (
	"cmp"
	"context"
	"html"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// Bounds of what is shown.
const (
	maxNotifications = 4               // notifications at once: more are no help, and sandboxmcp approvals has all
	defaultTimeout   = 5 * time.Second // of a Notifier
	closeTimeout     = time.Second     // how long Close waits for the answer to a question that it has just shown
	longest          = 300             // bytes of one thing that an agent wrote
)

// Config names the desktops on which questions are shown.
type Config struct {
	Address string       // of the session's bus, see Address; "" shows nothing
	Log     *slog.Logger // nil says nothing
}

// Notifier shows questions. Its methods may be called concurrently.
type Notifier struct {
	c       Config
	room    chan struct{}
	ctx     context.Context // of what is shown, until Close
	stop    context.CancelFunc
	all     sync.WaitGroup
	mu      sync.Mutex // held to begin something, and to end
	logOnce sync.Once

	timeout time.Duration // for anything that the desktop is asked
}

// New returns a notifier that has done nothing yet.
func New(c Config) *Notifier {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	n := &Notifier{c: c, room: make(chan struct{}, maxNotifications), timeout: defaultTimeout}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n
}

// Watch shows a question until done is closed. It returns at once.
func (n *Notifier) Watch(q approval.Question, done <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.c.Address == "" || n.ctx.Err() != nil {
		return
	}
	select {
	case n.room <- struct{}{}:
	default:
		return
	}
	n.all.Go(func() {
		defer func() { <-n.room }()
		if err := n.show(q, done); err != nil {
			n.logOnce.Do(func() { n.c.Log.Info("questions are not shown on the desktop", "why", err) })
		}
	})
}

// Close takes back what is shown, and waits for that, but no longer than a desktop may take.
func (n *Notifier) Close() {
	n.mu.Lock()
	n.stop()
	n.mu.Unlock()
	n.all.Wait()
}

// note is what one question looks like.
type note struct{ title, body string }

// noteOf is a question as it is shown; markup says whether the desktop reads the body as HTML.
func noteOf(q approval.Question, markup bool) note {
	lines := []string{short(q.What), "namespace " + short(q.Namespace)}
	if q.Run != "" { // the reason of a run is ours, and says nothing that the question does not
		q.Reason = ""
	}
	for _, f := range [][2]string{{"session ", q.Session}, {"client ", q.Client}, {"the agent says: ", q.Reason}} {
		if f[1] != "" {
			lines = append(lines, f[0]+short(f[1]))
		}
	}
	lines = append(lines, "for "+q.For.String(), "look at it with: sandboxmcp approvals", "answer with: sandboxmcp approve "+q.ID)
	body := strings.Join(lines, "\n")
	if markup {
		body = html.EscapeString(body)
	}
	title := map[string]string{
		approval.Host: "An agent asks for access to this machine", approval.Package: "An agent asks to install packages",
	}[q.Kind]
	return note{"sandboxmcp: " + cmp.Or(title, "An agent's code asks for network access"), body}
}

// short is one thing on one line, with nothing in it that would change how the rest reads.
func short(s string) string {
	s = safetext.Line(s)
	if len(s) <= longest {
		return s
	}
	s = s[:longest]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "... (cut)"
}
