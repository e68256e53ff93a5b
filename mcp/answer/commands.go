package answer

import (
	"cmp"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// Commands returns the command lines by which a person can allow q: one that answers it, and one that grants the same
// permission at any time, even after the question has expired. namespace is the server's; "" is the default one.
func Commands(q approval.Question, namespace string) []string {
	all := []string{ApprovingCommand(q)}
	more := " --for " + Duration(q.For)
	if own := cmp.Or(namespace, "default"); cmp.Or(q.Namespace, own) != own {
		more += " --namespace " + shellWord(q.Namespace)
	}
	switch verb, what, _ := strings.Cut(q.What, " "); {
	case q.CodeSHA256 != "" || q.Session != "": // a grant would allow more than the question asks for
	case q.What != OneLine(q.What): // can't be typed
	case q.Kind == approval.Egress:
		all = append(all, "sandboxmcp egress "+shellWord(q.What)+more)
	case q.Kind == approval.Host && verb == "run":
		all = append(all, "sandboxmcp host access allow "+shellWord(what)+more)
	case q.Kind == approval.Host:
		all = append(all, "sandboxmcp host access allow "+shellWord(what)+" --kind "+verb+more)
	}
	return all
}

// shellWord quotes s as a single shell word.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ApprovingCommand returns the command that approves a question.
func ApprovingCommand(q approval.Question) string {
	if q.Kind == approval.Egress {
		return "sandboxmcp egress approve " + q.ID
	}
	return "sandboxmcp approve " + q.ID
}

// Duration formats d without trailing zero units: 1h, not 1h0m0s.
func Duration(d time.Duration) string {
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
