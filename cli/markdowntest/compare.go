package markdowntest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// cut leaves out the lines of got for which want has dots.
func cut(want, got []string) []string {
	i := slices.Index(want, "...")
	rest := len(want) - i - 1
	if i < 0 || len(got) < i+rest {
		return got
	}
	return slices.Concat(got[:i], []string{"..."}, got[len(got)-rest:])
}

// value is what differs from run to run.
var value = regexp.MustCompile(`\b01[0-9A-HJKMNP-TV-Z]{24}\b|\b[0-9a-f]{64}\b|[A-Za-z0-9+/]{43}=`)

// varying are the parts of output that differ from machine to machine, or from time to time.
var varying = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|s|µs)\b`), "DURATION"},
	{regexp.MustCompile(`\b(just now|DURATION ago)\b`), "AGO"},
	{regexp.MustCompile(`\b(Python|Node|bash) v?\d+\.\d+\.\d+\b`), "$1 VERSION"},
	{regexp.MustCompile(`\bprocess \d+\b`), "process N"},
	{regexp.MustCompile(`\bI am \d+`), "I am UID"},
	{regexp.MustCompile(`,? cgroup\b`), ""}, // not every machine has one
	{regexp.MustCompile(` \(\d+ times\)`), ""},
	{regexp.MustCompile(`-{3,}`), "---"},
	{regexp.MustCompile(` +`), " "}, // columns are as wide as their values
}

// noCgroup is what verify and the tools say of a run without a cgroup, which not every machine has.
var noCgroup = regexp.MustCompile(`^(missing +cgroup|contained without cgroup \(.*\))$`)

// canonical is output with each value numbered and what varies replaced.
func canonical(lines []string) (all []string) {
	numbers := map[string]int{}
	for _, l := range lines {
		if noCgroup.MatchString(l) {
			continue
		}
		l = value.ReplaceAllStringFunc(l, func(v string) string {
			if numbers[v] == 0 {
				numbers[v] = len(numbers) + 1
			}
			return fmt.Sprintf("VALUE%d", numbers[v])
		})
		for _, v := range varying {
			l = v.of.ReplaceAllString(l, v.as)
		}
		all = append(all, strings.TrimSpace(l))
	}
	return all
}
