// Command sandboxmcp runs code in a sandbox and keeps a receipt of every run.
package main

import (
	"os"

	// a container's init takes over before main, as package cli/role and backends/process/launch do
	_ "github.com/sandboxmcp/sandboxmcp/backends/container/inside"
	"github.com/sandboxmcp/sandboxmcp/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
