package ask

import (
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// phrases are the texts of one kind of question.
type phrases struct {
	asks   string // first line of the dialog
	what   string // label of q.What in the dialog
	choice string // description of the choices
	no     string // text of a denied or open question, with %s for q.What: "%s may not be reached"
	open   string
	next   string // next step after an approval
}

func phrasesOf(kind string) phrases {
	switch kind {
	case approval.Host:
		return phrases{
			"An agent asks sandboxmcp for access to this machine itself, outside of any sandbox.", "Access",
			"Whether to allow it, and for how long at most.",
			"%s is not allowed", "whether it may %s",
			"call host_exec, or the host_file tool that needs it",
		}
	case approval.Package:
		return phrases{
			"An agent asks sandboxmcp to install packages from the network. Packages contain code, and later runs can use them.", "Packages",
			"Whether to install them, and for how long the permission lasts at most.",
			"%s may not be installed", "whether %s may be installed",
			"call install_package with the same arguments again",
		}
	case approval.Changes:
		return phrases{
			"An agent asks to apply the changes that its code made to a workspace.", "Changes",
			"Whether to apply them. What is held back stays out.",
			"the changes are not applied (%s)", "whether to %s",
			"go on; the workspace has the changes",
		}
	}
	return phrases{
		"Code that an agent runs in sandboxmcp asks for network access.", "Host",
		"Whether to allow access to the host, and for how long at most.",
		"%s may not be reached", "whether %s may be reached",
		"name it in allowed_domains of the next execute_code or create_session; existing sessions can reach it, too, if they were created with access to its port",
	}
}

// dialogText returns the text for the client's user. Texts of the agent and its program are on one line each, so that
// they can't imitate ours.
func dialogText(q approval.Question) string {
	p, head := phrasesOf(q.Kind), "The code begins with"
	if q.Kind == approval.Changes {
		head = "Paths"
	}
	text := fmt.Sprintf("%s\n%s: %s\nNamespace: %s", p.asks, p.what, answer.OneLine(q.What), answer.OneLine(q.Namespace))
	for _, f := range [][2]string{
		{"Session", q.Session}, {"Run", q.Run}, {"Client", q.Client}, {"Only for the code with SHA-256", q.CodeSHA256},
		{"Asked by the code with SHA-256", q.CodeOf}, {head, q.CodeHead},
	} {
		if f[1] != "" {
			text += "\n" + f[0] + ": " + answer.OneLine(f[1])
		}
	}
	if q.Run == "" && q.Reason != "" { // the question of a run contains its reason
		text += "\nReason given by the agent (not verified): " + answer.OneLine(q.Reason)
	}
	return text + "\nFor: " + answer.Duration(q.For)
}

// approvedText describes an approval to an agent.
func approvedText(q approval.Question, f *ApprovalFacts) string {
	text := fmt.Sprintf("approved: %s, for namespace %s, until %s", f.What, f.Namespace, f.Until)
	if f.Scope == approval.ScopeSession {
		text = fmt.Sprintf("approved: %s, for session %s only, until it ends or %s", f.What, q.Session, f.Until)
	}
	if q.CodeSHA256 != "" {
		text += ", for the code with SHA-256 " + q.CodeSHA256 + " only"
	}
	return text + "\nwhat to do: " + phrasesOf(q.Kind).next
}

func deniedText(q approval.Question, a approval.Answer, unasked []string) string {
	text := "denied: " + fmt.Sprintf(phrasesOf(q.Kind).no, q.What)
	if a.Reason != "" {
		text += ": " + safetext.Model(a.Reason)
	}
	switch {
	case !a.IsTimeout():
		return text + "\nwhat to do: do without it; asking again now returns the same answer"
	case len(unasked) == 0:
		return text + "\nwhat to do: do without it, or call again when a person is there to answer"
	}
	return text + "\nwhat to do: do without it, or call again when a person is there to answer; or have a person type, at any time\n  " +
		unasked[0]
}

func pendingText(q approval.Question, f *ApprovalFacts, commands []string) string {
	one := ""
	if len(commands) > 1 {
		one = " one of these"
	}
	return strings.Join([]string{
		fmt.Sprintf("pending: nobody has answered yet %s; it is denied automatically at %s", fmt.Sprintf(phrasesOf(q.Kind).open, q.What),
			f.Until),
		fmt.Sprintf("what to do: have a person type%s, and call this tool with the same arguments again to learn the answer:", one),
		"  " + strings.Join(commands, "\n  "),
	}, "\n")
}

// WaitingText describes the question that a call waits for, and how a person answers it.
func (s Asker) WaitingText(q approval.Question) string {
	return fmt.Sprintf("waiting for a person: %s (%s)", answer.OneLine(q.What), strings.Join(answer.Commands(q, s.Namespace), ", or "))
}
