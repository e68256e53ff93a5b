// Package notify shows questions on the desktop of the user that the server runs as, by notify-send, where that is
// installed.
//
// A notification says who asks for what, and the command that answers. It answers nothing itself: a button that
// approves would be one that any program in the session could press for a person, and one that is too easily pressed
// by mistake. What can't be shown is not: questions neither wait for the desktop nor depend on it.
package notify

import (
	"cmp"
	"context"
	"html"
	"os/exec"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// Send returns a function that shows a question with a program, notify-send, in an environment. It returns at once.
// Four are sent at a time, each within five seconds; more are no help, and sandboxmcp approvals has all.
func Send(program string, environ []string) func(approval.Question) {
	room := make(chan struct{}, 4)
	return func(q approval.Question) {
		select {
		case room <- struct{}{}:
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer func() { cancel(); <-room }()
				cmd := exec.CommandContext(ctx, program, append([]string{"--app-name=sandboxmcp", "--icon=dialog-question", "--"}, textOf(q)...)...)
				cmd.Env = environ
				_ = cmd.Run() // there may be no desktop
			}()
		default:
		}
	}
}

// textOf returns the title and the body of a notification, in which nothing that an agent chose is markup for the
// desktop, or an escape for notify-send, which resolves those of C.
func textOf(q approval.Question) []string {
	body := "for " + q.For.String() + "\nlook at it with: sandboxmcp approvals\nanswer with: sandboxmcp approve " + q.ID
	if q.Run != "" { // the reason of a run is ours, and says nothing that the question does not
		q.Reason = ""
	}
	for _, f := range [][2]string{{"the agent says: ", q.Reason}, {"client ", q.Client}, {"session ", q.Session}, {"namespace ", q.Namespace}, {"", q.What}} {
		if f[1] != "" {
			body = f[0] + safetext.Clip(safetext.Line(f[1]), 300) + "\n" + body
		}
	}
	title := map[string]string{approval.Host: "access to this machine", approval.Package: "packages"}[q.Kind]
	return []string{"sandboxmcp: an agent asks for " + cmp.Or(title, "network access"), strings.ReplaceAll(html.EscapeString(body), `\`, "&#92;")}
}
