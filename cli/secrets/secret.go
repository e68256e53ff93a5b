package secrets

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// secretValue is the value of the secret key: from the command line, a file, standard input or, if
// the command line names none of these, from the terminal.
func (p commands) secretValue(c *cli.Context, key string) ([]byte, error) {
	file, typed := c.String("from-file"), c.NArg() > 1
	sources := 0
	for _, named := range []bool{typed, c.IsSet("from-file"), c.Bool("stdin")} {
		if named {
			sources++
		}
	}
	switch {
	case sources > 1:
		return nil, exit.Usage(lineAbout(c, key), "say once where the value is: as VALUE, with --from-file or with --stdin")
	case typed:
		p.Say("warning: the value is in the history of this shell now, and others on this machine could see it; " +
			"without VALUE, it is asked for")
		return []byte(c.Args().Get(1)), nil
	case c.Bool("stdin"):
		return readValue(p.In, "standard input")
	case c.IsSet("from-file"):
		f, err := os.Open(file)
		if err != nil {
			return nil, exit.Usage("the path starts at the current directory", "%v", err)
		}
		defer f.Close()
		return readValue(f, file)
	}
	return p.askValue(c, key)
}

// lineAbout is the line that was typed, about the same secret.
func lineAbout(c *cli.Context, key string) string {
	line := c.Command.HelpName + " " + key
	if c.IsSet("namespace") {
		line += " --namespace " + c.String("namespace")
	}
	return line
}

// readValue reads a whole value, without one line end after it: editors and echo(1) put one there.
func readValue(r io.Reader, from string) ([]byte, error) {
	value, err := io.ReadAll(io.LimitReader(r, vault.MaxValue+3))
	if err != nil {
		clear(value)
		return nil, exit.Fail("", "read the value from %s: %v", from, err)
	}
	if line, cut := bytes.CutSuffix(value, []byte("\n")); cut {
		value = bytes.TrimSuffix(line, []byte("\r"))
	}
	if len(value) == 0 {
		return nil, exit.Usage("", "the value is empty: nothing came from %s", from)
	}
	return value, nil
}

// longestLine is how many bytes of a line a terminal of Linux keeps; it throws the rest away without a word.
const longestLine = 4095

// askValue asks on the terminal, which does not show what is typed.
func (p commands) askValue(c *cli.Context, key string) ([]byte, error) {
	in, ok := p.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, exit.Usage(lineAbout(c, key)+" --stdin", "there is no terminal to ask for the value: use --stdin or --from-file")
	}
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, exit.Fail("--stdin or --from-file", "the terminal can't hide what is typed: %v", err)
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	fmt.Fprintf(p.Err, "value of %s, which is not shown: ", key)
	type answer struct {
		value []byte
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := term.ReadPassword(fd)
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		fmt.Fprintln(p.Err)
		switch {
		case a.err != nil:
			return nil, exit.Fail("--stdin or --from-file", "read the value from the terminal: %v", a.err)
		case len(a.value) == 0:
			return nil, exit.Usage("", "the value is empty: nothing was added")
		case len(a.value) >= longestLine:
			clear(a.value)
			return nil, exit.Usage("--stdin or --from-file", "the value has %d bytes or more, and the terminal may have cut it: nothing was added", longestLine)
		}
		return a.value, nil
	case <-ctx.Done(): // the goroutine can't be ended; the process is about to
		term.Restore(fd, before)
		fmt.Fprintln(p.Err)
		return nil, exit.Fail("", "interrupted: nothing was added")
	}
}
