package markdowntest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// alignDots removes the lines of got for which want has dots.
func alignDots(want, got []string) []string {
	i := slices.Index(want, "...")
	rest := len(want) - i - 1
	if i < 0 || len(got) < i+rest {
		return got
	}
	return slices.Concat(got[:i], []string{"..."}, got[len(got)-rest:])
}

// variableValue matches ids, hashes and keys, which differ from run to run.
var variableValue = lazy.Regexp(`\b01[0-9A-HJKMNP-TV-Z]{24}\b|\b[0-9a-f]{64}\b|[A-Za-z0-9+/]{43}=`)

// varyingParts are the parts of output that differ between machines or from time to time.
var varyingParts = []struct {
	of func() *regexp.Regexp
	as string
}{
	{lazy.Regexp(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{lazy.Regexp(`\b\d+(\.\d+)? ?(ms|s|µs)\b`), "DURATION"},
	{lazy.Regexp(`\b(just now|DURATION ago)\b`), "AGO"},
	{lazy.Regexp(`\b(Python|Node|bash) v?\d+\.\d+\.\d+\b`), "$1 VERSION"},
	{lazy.Regexp(`\bprocess \d+\b`), "process N"},
	{lazy.Regexp(`\bI am \d+`), "I am UID"},
	{lazy.Regexp(`,? cgroup\b`), ""}, // not every machine has one
	{lazy.Regexp(` \(\d+ times\)`), ""},
	{lazy.Regexp(`-{3,}`), "---"},
	{lazy.Regexp(` +`), " "}, // column widths depend on values
}

// noCgroup matches the lines of verify and the tools about a run without a cgroup, which not every machine has.
var noCgroup = lazy.Regexp(`^(missing +cgroup|contained without cgroup \(.*\))$`)

// canonical returns output with values numbered and varying parts replaced.
func canonical(lines []string) (all []string) {
	numbers := map[string]int{}
	for _, l := range lines {
		if noCgroup().MatchString(l) {
			continue
		}
		l = variableValue().ReplaceAllStringFunc(l, func(v string) string {
			if numbers[v] == 0 {
				numbers[v] = len(numbers) + 1
			}
			return fmt.Sprintf("VALUE%d", numbers[v])
		})
		for _, v := range varyingParts {
			l = v.of().ReplaceAllString(l, v.as)
		}
		all = append(all, strings.TrimSpace(l))
	}
	return all
}
