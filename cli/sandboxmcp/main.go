// Command sandboxmcp runs code in a sandbox and keeps a receipt of every run.
package main

import (
	"os"

	_ "github.com/sandboxmcp/sandboxmcp/backends/container/inside" // container init and sandbox child take over before main
	"github.com/sandboxmcp/sandboxmcp/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
