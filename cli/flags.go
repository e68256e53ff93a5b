package cli

import "github.com/urfave/cli/v2"

func jsonFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print it as JSON"} }

func outFlag() cli.Flag {
	return &cli.StringFlag{Name: "out", Usage: "write it to the new file `FILE` instead of standard output"}
}

func keyFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "key", Usage: "trust `KEY` only, a file of sandboxmcp key export (may be given more than once)"}
}
