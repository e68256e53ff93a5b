package cmdline

import (
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/urfave/cli/v2"
)

var badFlag = lazy.Regexp(`(?s)^invalid value (".*") for flag -(\S+): `)

// BadValue describes an error in a flag's value as the person typed it. The flag package's own text has one dash and
// "parse error".
func BadValue(err error, flags []cli.Flag) string {
	m := badFlag().FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	expected, of := "a value that it takes", ""
	f := FindFlag(flags, m[2])
	if d, ok := f.(cli.DocGenerationFlag); ok && Placeholder(d.GetUsage()) != "N" {
		of = " of " + Placeholder(d.GetUsage())
	}
	switch f.(type) {
	case *cli.IntFlag, *cli.Int64Flag, *cli.UintFlag, *cli.Uint64Flag:
		expected = "a whole number" + of
	case *cli.Float64Flag:
		expected = "a number" + of
	case *cli.DurationFlag:
		expected = "a time such as 30s, 10m or 1h"
	}
	return fmt.Sprintf("--%s %s is not %s", m[2], m[1], expected)
}

// Placeholder returns the name of the value in the usage of a flag.
func Placeholder(usage string) string {
	_, rest, _ := strings.Cut(usage, "`")
	name, _, _ := strings.Cut(rest, "`")
	return name
}
