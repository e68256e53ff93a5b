// Command sandboxmcp runs code in a sandbox and keeps a receipt of every run.
package main

import (
	"os"

	_ "github.com/sandboxmcp/sandboxmcp/backends/container/inside" // a container's init takes over before main, and so does the sandbox's child
	"github.com/sandboxmcp/sandboxmcp/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
