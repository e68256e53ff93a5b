package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p commands) vaultAddCommand() *cli.Command {
	return &cli.Command{
		Name:      "add",
		Usage:     "add a secret; its value is typed without echo",
		UsageText: "sandboxmcp vault add KEY [VALUE] [flags]",
		Description: `With --host, programs never get the value: they see a placeholder, which is replaced by the value outside
of the sandbox, in requests to the hosts.

Examples:
  sandboxmcp vault add DB_PASSWORD
  sandboxmcp vault add API_KEY --host api.example.com --require
  sandboxmcp vault add SSH_KEY --namespace team-a --from-file id_ed25519
  sandboxmcp vault add GITHUB_TOKEN --host github.com --host api.github.com --store keyring
  pass show api | sandboxmcp vault add API_KEY --stdin --replace`,
		Flags: slices.Concat([]cli.Flag{command.NamespaceFlag()}, bindingFlags(), valueFlags(), []cli.Flag{
			&cli.StringFlag{Name: "store", Usage: "keep it in the store `STORE`: sealed, or keyring, the operating system's", Value: vault.InSealed},
			&cli.BoolFlag{Name: "replace", Usage: "replace an existing secret and its hosts"},
			command.JSONFlag(),
		}),
		Action: p.vaultAdd,
	}
}

func (p commands) vaultAdd(c *cli.Context) error {
	namespace, key, err := secretNames(c)
	if err != nil {
		return err
	}
	e := vault.Entry{Namespace: namespace, Key: key, Store: c.String("store")}
	if e.Store != vault.InSealed && e.Store != vault.InKeyring {
		return exit.Usage("--store sealed or --store keyring", "can't add to the store %s", e.Store)
	}
	if e.Binding, err = bindingFrom(c); err != nil {
		return err
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	value, err := p.secretValue(c, e.Key)
	if err != nil {
		return err
	}
	defer clear(value)
	err = changeVault(c, cfg, func(ctx context.Context, s *vault.Sealed) error {
		return s.Add(ctx, e, value, c.Bool("replace"))
	})
	switch {
	case errors.Is(err, vault.ErrExists):
		return exit.Fail(strings.Replace(commandLineFor(c, e.Key), "add", "rotate", 1)+" gives it a new value; --replace takes its place, and "+
			"that of its hosts", "%v", err)
	case err != nil:
		return err
	}
	p.warnUnused(cfg, e)
	p.hintUnbound(e)
	where := ""
	if len(e.Hosts) > 0 {
		where = ", for " + strings.Join(e.Hosts, ", ") + " only"
	}
	e.Added = time.Now()
	return p.Printf(c, secretEntryOf(e, time.Time{}), "added %s to the namespace %s%s\n", e.Key, e.Namespace, terminal.Visible(where))
}

// secretNames returns the names of the secret in a command line with a KEY, and perhaps a VALUE.
func secretNames(c *cli.Context) (namespace, key string, err error) {
	help := c.Command.HelpName + " --help"
	if c.NArg() == 0 || c.NArg() > 2 { // the words are not printed: one may be the value
		return "", "", exit.Usage(help, "vault %s needs a KEY, and takes one VALUE, not %s", c.Command.Name, terminal.Count(c.NArg(), "word"))
	}
	namespace, key = c.String("namespace"), c.Args().First()
	if err := vault.CheckName(namespace, key); err != nil {
		return "", "", exit.Usage(help, "%v", err)
	}
	return namespace, key, nil
}

// bindingFrom returns the hosts to which the command line binds a secret.
func bindingFrom(c *cli.Context) (vault.Binding, error) {
	b := vault.Binding{Require: c.Bool("require"), Body: c.Bool("body")}
	for _, host := range c.StringSlice("host") {
		if !slices.Contains(b.Hosts, host) {
			b.Hosts = append(b.Hosts, host)
		}
	}
	if _, err := egress.NewPolicy(b.Hosts, nil); err != nil {
		return b, exit.Usage("--host api.example.com, *.example.com or example.com:8443", "%v", err)
	}
	if len(b.Hosts) == 0 && (b.Require || b.Body) {
		return b, exit.Usage("--host api.example.com", "--require and --body say how a host gets the secret: say which, too")
	}
	return b, nil
}

// warnUnused warns about a secret that runs will not receive.
func (p commands) warnUnused(cfg config.Config, e vault.Entry) {
	here := slices.Index(cfg.Vault, e.Store)
	variable, err := vault.Variable(e.Namespace, e.Key)
	first := slices.Index(cfg.Vault, "environment")
	switch {
	case here < 0:
		p.Messagef("warning: no run gets it: the setting vault lacks the store %s", e.Store)
	case err == nil && first >= 0 && first < here && os.Getenv(variable) != "":
		p.Messagef("warning: as long as the environment variable %s is set, runs get its value instead", variable)
	}
}

// tokenHosts are the hosts of well-known tokens, by the variables that programs read them from.
var tokenHosts = map[string][]string{
	"ANTHROPIC_API_KEY":      {"api.anthropic.com"},
	"GEMINI_API_KEY":         {"generativelanguage.googleapis.com"},
	"GH_TOKEN":               {"github.com", "api.github.com"}, // git over https, and gh
	"GITHUB_TOKEN":           {"github.com", "api.github.com"},
	"GITLAB_TOKEN":           {"gitlab.com"},
	"GROQ_API_KEY":           {"api.groq.com"},
	"HF_TOKEN":               {"huggingface.co"},
	"HUGGING_FACE_HUB_TOKEN": {"huggingface.co"},
	"MISTRAL_API_KEY":        {"api.mistral.ai"},
	"OPENAI_API_KEY":         {"api.openai.com"},
	"OPENROUTER_API_KEY":     {"openrouter.ai"},
	"SLACK_BOT_TOKEN":        {"slack.com"},
	"STRIPE_SECRET_KEY":      {"api.stripe.com"},
}

// hintUnbound prints how to hide a well-known token that has no binding from programs.
func (p commands) hintUnbound(e vault.Entry) {
	hosts := tokenHosts[e.Key]
	if len(hosts) == 0 || len(e.Hosts) > 0 {
		return
	}
	where := ""
	if e.Namespace != "default" {
		where += " --namespace " + e.Namespace
	}
	if e.Store == vault.InKeyring {
		where += " --store keyring"
	}
	p.Messagef("hint: programs see its value; sandboxmcp vault add %s --host %s --replace%s keeps it outside the sandbox",
		e.Key, strings.Join(hosts, " --host "), where)
}

// secretValue returns the value of the secret key: from the command line, a file, standard input or, if none of these
// is named, the terminal.
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
		return nil, exit.Usage(commandLineFor(c, key), "give the value once: as VALUE, --from-file or --stdin")
	case typed:
		p.Messagef("warning: the value is in the history of this shell now, and others on this machine could see it; " +
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

// commandLineFor returns a command line about the same secret.
func commandLineFor(c *cli.Context, key string) string {
	line := c.Command.HelpName + " " + key
	if c.IsSet("namespace") {
		line += " --namespace " + c.String("namespace")
	}
	return line
}

// readValue reads a value and removes one line end, which editors and echo(1) add.
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

// maxTerminalLine is the number of bytes of a line that a Linux terminal buffers; it drops the rest silently.
const maxTerminalLine = 4095

// askValue asks for the value on the terminal, without echo.
func (p commands) askValue(c *cli.Context, key string) ([]byte, error) {
	in, ok := p.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, exit.Usage(commandLineFor(c, key)+" --stdin", "no terminal to ask for the value: use --stdin or --from-file")
	}
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, exit.Fail("--stdin or --from-file", "the terminal can't hide input: %v", err)
	}
	ctx, stop := command.UntilSignals(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	fmt.Fprintf(p.Err, "value of %s (hidden): ", key)
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
		case len(a.value) >= maxTerminalLine:
			clear(a.value)
			return nil, exit.Usage("--stdin or --from-file", "the value has %d bytes or more, and the terminal may have cut it: nothing was added",
				maxTerminalLine)
		}
		return a.value, nil
	case <-ctx.Done(): // the goroutine can't be ended; the process is about to exit
		term.Restore(fd, before)
		fmt.Fprintln(p.Err)
		return nil, exit.Fail("", "interrupted: nothing was added")
	}
}
