package mcp

import (
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// phrases are how questions of one kind are put.
type phrases struct {
	asks    string // the dialog's first line
	what    string // what q.What is called there
	choice  string // what there is to choose
	no      string // of what was denied or still waits, with %s for it: "%s may not be reached"
	open    string
	next    string // what to do once it is approved
	command string // that approves it, without the id
}

func phrasesOf(kind string) phrases {
	switch kind {
	case approval.Host:
		return phrases{
			"An agent asks sandboxmcp for access to this machine itself, outside of any sandbox.", "Access",
			"Whether the agent may do that, and for how long at most.",
			"%s is not allowed", "whether it may %s",
			"call host_exec, or the host_file tool that needs it", "sandboxmcp approve",
		}
	case approval.Package:
		return phrases{
			"An agent asks sandboxmcp to install packages from the network. Later code can use them, and they are code.", "Packages",
			"Whether they may be installed, and for how long that holds at most.",
			"%s may not be installed", "whether %s may be installed",
			"call install_package with the same arguments again", "sandboxmcp approve",
		}
	}
	return phrases{
		"Code that an agent runs in sandboxmcp asks for network access.", "Host",
		"Whether the host may be reached, and for how long at most.",
		"%s may not be reached", "whether %s may be reached",
		"name it in allowed_domains of the next execute_code or create_session; sessions that run already can reach it, too, if they were created with a way out on its port",
		"sandboxmcp egress approve",
	}
}

// approvingCommand is what a person types to approve a question.
func approvingCommand(q approval.Question) string { return phrasesOf(q.Kind).command + " " + q.ID }

// dialogText is what the client's user reads. What the agent or its program wrote is in one line, so that it can't
// pretend to be ours.
func dialogText(q approval.Question) string {
	p := phrasesOf(q.Kind)
	text := fmt.Sprintf("%s\n%s: %s\nNamespace: %s", p.asks, p.what, oneLine(q.What), oneLine(q.Namespace))
	for _, f := range [][2]string{
		{"Session", q.Session}, {"Run", q.Run}, {"Client", q.Client}, {"Only for the code with SHA-256", q.CodeSHA256},
		{"Asked by the code with SHA-256", q.CodeOf}, {"The code begins with", q.CodeHead},
	} {
		if f[1] != "" {
			text += "\n" + f[0] + ": " + oneLine(f[1])
		}
	}
	if q.Run == "" && q.Reason != "" { // of a run, the question says it all
		text += "\nThe agent's reason (a claim): " + oneLine(q.Reason)
	}
	return text + "\nFor: " + duration(q.For)
}

// approvedText is what an agent is told of an approval.
func approvedText(q approval.Question, f *approvalFacts) string {
	text := fmt.Sprintf("approved: %s, for namespace %s, until %s", f.What, f.Namespace, f.Until)
	if f.Scope == approval.ScopeSession {
		text = fmt.Sprintf("approved: %s, for session %s only, until it ends or %s", f.What, q.Session, f.Until)
	}
	if q.CodeSHA256 != "" {
		text += ", for the code with SHA-256 " + q.CodeSHA256 + " only"
	}
	return text + "\nwhat to do: " + phrasesOf(q.Kind).next
}

func deniedText(q approval.Question, reason string) string {
	text := "denied: " + fmt.Sprintf(phrasesOf(q.Kind).no, q.What)
	if reason != "" {
		text += ": " + reason
	}
	return text + "\nwhat to do: do without it; asking again at once gets the same answer"
}

func pendingText(q approval.Question, f *approvalFacts) string {
	return strings.Join([]string{
		fmt.Sprintf("pending: nobody has answered yet %s; after %s that means no", fmt.Sprintf(phrasesOf(q.Kind).open, q.What), f.Until),
		"what to do: have a person type", "  " + f.Command, "and call this tool with the same arguments again to learn the answer",
	}, "\n")
}
