package facts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// Summary returns the main facts of r in a few words. They are unescaped: the caller escapes them for display.
func Summary(r audit.Row) string { return Parse(r).Summary(r) }

// Summary is Summary of r, whose facts f are.
func (f Facts) Summary(r audit.Row) string {
	stem, verb, _ := strings.Cut(r.Kind, ".")
	var words []string
	switch {
	case r.Kind == "session.created":
		words = []string{f.Language, prefixed("in", f.Backend)}
	case r.Kind == "session.killed":
		words = []string{f.Language, f.Why, plural(f.Cells, "cell"), plural(f.Restarts, "restart")}
	case r.Kind == "session.bridged":
		words = []string{quote(f.Key), prefixed("from", f.From), prefixed("into", f.Session), size(f.Bytes)}
	case stem == "execution":
		words = f.runWords()
	case stem == "egress" && f.What == "":
		words = f.decisionWords()
	case stem == "egress" || stem == "approval":
		words = f.answerWords(verb)
	case stem == "vault":
		words = []string{cmp.Or(f.Name, strings.Join(append(f.Secrets, f.Names...), ", ")), prefixed("for", strings.Join(f.Hosts, ", "))}
	case stem == "token":
		words = []string{f.Name, f.Kind, prefixed("by", answeredBy(f)), prefixed("until", f.Until)}
	case stem == "key":
		words = []string{f.Key, prefixed("in the place of", f.Replaces)}
	case r.Kind == "audit.deleted" || r.Kind == "audit.lost":
		words = []string{fmt.Sprintf("rows %d to %d", f.First, f.Last)}
	case r.Kind == "package.installed":
		words = []string{f.Language, f.Installed()}
	case r.Kind == "resource.exceeded":
		words = []string{prefixed("limit of", strings.Join(f.Limits(), ", "))}
	case r.Kind == "artifact.signed":
		words = []string{plural(f.Artifacts, "artifact")}
	}
	if text := strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " "); text != "" {
		return text
	}
	return otherFields(r.Data)
}

func (f Facts) runWords() []string {
	words := []string{cmp.Or(strings.Join(f.Command, " "), f.Name, strings.TrimSpace(f.Tool+" "+f.What), f.Language)}
	switch {
	case f.Reason != "":
		if words[0] != "" {
			words[0] += ":"
		}
		words = append(words, f.Reason)
	case f.Ended == "signal":
		words = append(words, f.Signal)
	case f.Ended == "exit":
		words = append(words, fmt.Sprintf("exit %d", f.ExitCode))
	case f.Ended == "limit":
		words = append(words, prefixed("limit of", f.Limit))
	default:
		words = append(words, f.Ended)
	}
	if f.WallMS > 0 {
		words = append(words, fmt.Sprintf("in %.2f s", f.WallMS/1000))
	}
	return append(words, prefixed("without", strings.Join(f.Missing, ", ")))
}

func (f Facts) decisionWords() []string {
	name := f.Name
	if f.Port != 0 {
		name += ":" + strconv.Itoa(f.Port)
	}
	if f.Name != "" && f.Reason != "" {
		name += ":"
	}
	return []string{name, f.Reason, size(f.Bytes)}
}

func (f Facts) answerWords(verb string) []string {
	words := []string{f.What}
	if f.Kind != "egress" {
		words = []string{f.Kind, f.What}
	}
	if verb == "requested" {
		return append(words, prefixed("asked by", f.Client), prefixed("for", quote(f.Reason)))
	}
	return append(words, prefixed("by", answeredBy(f)), prefixed("for the", f.Scope), prefixed("until", f.Until), quote(f.Reason))
}

// answeredBy returns the person that answered, and the channel of the answer.
func answeredBy(f Facts) string {
	name := cmp.Or(f.Identity, f.User)
	if name == "" {
		return f.By
	}
	return name + " (" + f.By + ")"
}

// Installed names the packages that were installed, with their versions.
func (f Facts) Installed() string {
	names := make([]string, 0, len(f.Packages))
	for _, p := range f.Packages {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// Limits returns the limits that ended a run and those that the run hit, each once.
func (f Facts) Limits() []string {
	var all []string
	for _, l := range append([]string{f.Limit}, f.Hit...) {
		if l != "" && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// otherFields returns short facts of a row of an unknown kind, for example of a newer version.
func otherFields(data json.RawMessage) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return ""
	}
	var words []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var text string
		if json.Unmarshal(all[key], &text) != nil {
			text = string(all[key])
		}
		if text != "" && len(text) <= 80 && len(words) < 6 {
			words = append(words, key+" "+text)
		}
	}
	return strings.Join(words, ", ")
}

func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + " " + text
}

func quote(text string) string {
	if text == "" {
		return ""
	}
	return `"` + text + `"`
}

func plural(n int, thing string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func size(bytes int64) string {
	if bytes <= 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes", bytes)
}
