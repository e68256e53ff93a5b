// Package notify shows questions on the desktop of the server's user with notify-send, if installed.
//
// A notification shows the agent's request and the command that answers it. It has no buttons: any program in the
// desktop session could press one, and a person could press it by mistake. Questions do not depend on the desktop: a
// failed notification is dropped.
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

// Send returns a function that shows a question with program, notify-send, in an environment, and returns at once. At
// most four notifications are sent at a time, each within five seconds; further ones are dropped, and sandboxmcp
// approvals lists all.
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

// textOf returns the title and the body of a notification. Text of an agent is escaped, so it is neither markup for
// the desktop nor a C escape, which notify-send resolves.
func textOf(q approval.Question) []string {
	body := "for " + q.For.String() + "\nlook at it with: sandboxmcp approvals\nanswer with: sandboxmcp approve " + q.ID
	if q.Run != "" { // we set the reason of a run, and it repeats the question
		q.Reason = ""
	}
	for _, f := range [][2]string{{"the agent says: ", q.Reason}, {"client ", q.Client}, {"session ", q.Session}, {"namespace ", q.Namespace},
		{"", q.What}} {
		if f[1] != "" {
			body = f[0] + safetext.Clip(safetext.Line(f[1]), 300) + "\n" + body
		}
	}
	title := map[string]string{approval.Host: "access to this machine", approval.Package: "packages",
		approval.Changes: "changes to a workspace"}[q.Kind]
	body = strings.ReplaceAll(html.EscapeString(body), `\`, "&#92;")
	return []string{"sandboxmcp: an agent asks for " + cmp.Or(title, "network access"), body}
}
