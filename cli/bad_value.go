package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

var badFlag = lazy(`(?s)^invalid value (".*") for flag -(\S+): `)

// badValue says what is wrong with a flag's value as a person typed it: the flag package, whose words these are
// otherwise, knows one dash and "parse error".
func badValue(err error, flags []cli.Flag) string {
	m := badFlag().FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	expected, of := "a value that it takes", ""
	f := find(flags, m[2])
	if d, ok := f.(cli.DocGenerationFlag); ok && placeholder(d.GetUsage()) != "N" {
		of = " of " + placeholder(d.GetUsage())
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
