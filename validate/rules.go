package validate

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// The severities, from Info, for information, to High, for actions that ordinary programs don't take.
const (
	Info   = "info"
	Low    = "low"
	Medium = "medium"
	High   = "high"
)

// Rule is a dangerous pattern that Analyze reports.
type Rule struct {
	Name     string // used to switch it off; starts with the language, unless it is for all
	Severity string
	Reason   string // explanation for users
}

// unread is the rule for code that could not be inspected: an unreadable program must not pass a policy that refuses
// dangers.
const unread = "unread"

// command is the severity, in the table, of calls whose text a shell runs.
const command = "command"

//go:embed rules.txt
var rulesText string

// pattern is a line of the table: nodes of a path that meet conditions.
type pattern struct {
	rule       Rule
	conditions []condition
}

type condition struct {
	not     bool
	keys    []string
	kind    string // of files
	matches func() *regexp.Regexp
}

// table is rules.txt.
type table struct {
	rules    []Rule
	patterns map[string]map[string][]pattern // by language and path
}

var rulesTable = sync.OnceValue(func() table {
	t := table{patterns: map[string]map[string][]pattern{Python: {}, Node: {}, Shell: {}}}
	var rule Rule
	for line := range strings.Lines(rulesText) {
		words, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case words == "" || words[0] == '#':
		case indented:
			parts := strings.Split(words, " &")
			p := pattern{rule: rule}
			for _, part := range parts[1:] {
				p.conditions = append(p.conditions, parseCondition(part))
			}
			language, _, _ := strings.Cut(rule.Name, "-")
			for path := range strings.FieldsSeq(parts[0]) {
				t.patterns[language][path] = append(t.patterns[language][path], p)
			}
		default:
			fields := strings.SplitN(words+" ", " ", 3)
			if rule = (Rule{fields[0], fields[1], strings.TrimSpace(fields[2])}); rule.Severity != command {
				t.rules = append(t.rules, rule)
			}
		}
	}
	return t
})

func parseCondition(text string) condition {
	text, not := strings.CutPrefix(text, "!")
	keys, value, _ := strings.Cut(strings.TrimSpace(text), " ")
	return condition{not, strings.Split(keys, ","), value, lazy.Regexp(value)}
}

// Rules returns all rules.
func Rules() []Rule { return slices.Clone(rulesTable().rules) }

// rulePaths returns the node paths in the rules of a language.
func rulePaths(language string) []string {
	return slices.Sorted(maps.Keys(rulesTable().patterns[language]))
}

// call is a node of a program's syntax tree, in a common form for all languages.
type call struct {
	// Path is the called function, by the names of modules without aliases: "os.system", in a shell the program.
	// Other nodes have a colon: "import:ctypes", "member:f_globals", "set:builtins", "loop:os.fork" for a call in a
	// loop without end, and those of shellWalk.
	Path string
	// Of is the text of the method's or member's value; in a shell, the program.
	Of string
	// Args are the literal texts of the arguments; of a list, its words. A name is unknownText
	// and its path.
	Args  []string
	Named map[string]string // texts of keyword arguments, and of the members of objects
	Inner []string          // the paths of calls in the arguments; in a shell, commands whose output becomes code
	At    int               // its byte offset
}

// unknownText stands in texts for values that are known only at run time.
const unknownText = "\ufffd"

// conditionValues returns the values of a key of a condition.
func (c call) conditionValues(key string, all []call) (values []string) {
	switch i, err := strconv.Atoi(key); {
	case err == nil:
		return c.Args[min(i, len(c.Args)):min(i+1, len(c.Args))]
	case key == "any":
		return c.Args
	case key == "last":
		return c.Args[max(0, len(c.Args)-1):]
	case key == "line":
		return []string{strings.Join(c.Args, " ")}
	case key == "of":
		return []string{c.Of}
	case key == "inner":
		return c.Inner
	case key == "beside":
		for _, other := range all {
			values = append(values, other.Path)
		}
		return values
	case key == "-c": // the argument after this option
		if i := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c") }); i >= 0 {
			return c.conditionValues(strconv.Itoa(i+1), nil)
		}
	}
	if value, is := c.Named[key]; is {
		return []string{value}
	}
	return nil
}
