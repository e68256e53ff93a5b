package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/page"
)

func (p commands) pageCommand() *cli.Command {
	return &cli.Command{
		Name:      "page",
		Usage:     "open the page of a running server: requests, programs, history",
		UsageText: "sandboxmcp page [--namespace NS]... [--url URL] [--no-open] [--json] [--server PID]",
		Description: `It prints a link that works once, within two minutes, and opens it if there is a desktop. The link signs its holder in as you, or for the namespaces in
--namespace only. The browser stays signed in for twelve hours, or until the page has been unused for an hour.

A server with HTTP (serve --listen, unless http.page is no) has the page at its address; --url is the URL by which browsers reach it through a proxy or
a tunnel. For any other server this command serves the page, at an address of this machine only, until Ctrl-C.

Example: sandboxmcp page
Example: sandboxmcp page --no-open --namespace team --url https://agents.example.com/sandbox/`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "namespace", Usage: "show only the namespace `NS` (may be given more than once)"},
			&cli.StringFlag{Name: "url", Usage: "print a link to this `URL`, by which browsers reach the server"},
			&cli.BoolFlag{Name: "no-open", Usage: "only print the link"},
			command.JSONFlag(),
			ServerFlag(),
		},
		Action: command.NoWords(p.page),
	}
}

// pageLink is the output of page: an address that signs a browser in.
type pageLink struct {
	URL string `json:"url"`
}

func (p commands) page(c *cli.Context) error {
	if text := c.String("url"); text != "" {
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
			u.Fragment != "" {
			return exit.Usage("sandboxmcp page --url https://agents.example.com/", "--url must be the page's address, such as https://HOST/")
		}
	}
	return WithServerHint(c, func(ctx context.Context, client *control.Client) error {
		in, err := control.Call(ctx, client, control.OpenPage, control.InvitationQuery{Namespaces: c.StringSlice("namespace")})
		if err != nil {
			return err
		}
		if in.Code != "" {
			base := in.Address
			if c.IsSet("url") {
				base = c.String("url")
			}
			return p.showLink(c, base, in.Code)
		}
		if strings.Contains(client.Socket(), "://") {
			return exit.Fail("set http.page to yes there", "the server has no page")
		}
		if set := c.StringSlice("namespace"); len(set) > 0 || c.IsSet("url") {
			return exit.Usage("start the server with --listen, which has a page of its own",
				"--namespace and --url are for servers that answer over HTTP")
		}
		return p.servePage(ctx, c, client)
	})
}

// showLink prints the link and opens it in a browser.
func (p commands) showLink(c *cli.Context, base, code string) error {
	l := pageLink{strings.TrimSuffix(base, "/") + "/#" + code}
	err := p.Print(c, l, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, l.URL)
		return err
	})
	if err == nil && !c.Bool("no-open") && !c.Bool("json") && terminal.IsTerminal(p.Out) {
		if why := openLink(l.URL); why != nil {
			p.Messagef("open the link in a browser: %v", why)
		}
	}
	return err
}

// servePage serves the page in this process, through the server's socket, until a signal arrives or the server ends.
func (p commands) servePage(ctx context.Context, c *cli.Context, client *control.Client) error {
	site := page.New(page.Config{Client: client.ForPage(), Version: version.Current().Version})
	d, err := listenLocally(ctx, door.Config{Handler: site, Linked: page.IsLinkPath})
	if err != nil {
		return err
	}
	code, err := site.Invite(identity.Identity{Name: console.User(), Kind: identity.Person, Source: identity.FromPeer,
		Namespaces: identity.All()})
	if err == nil {
		err = p.showLink(c, d.Address(), code)
	}
	if err == nil {
		p.Messagef("serving the page until Ctrl-C")
		err = waitForEnd(ctx, client, d.Failed())
	}
	site.Close()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = d.Drain(last) // cut off browsers that still read
	return err
}

// listenLocally listens on a loopback address. On Linux it picks one of 127.0.0.0/8: browsers separate cookies by
// address and not by port, so no other server on this machine receives the page's.
func listenLocally(ctx context.Context, c door.Config) (*door.Door, error) {
	if runtime.GOOS == "linux" {
		b := make([]byte, 3)
		_, _ = rand.Read(b) // never fails
		c.Address = fmt.Sprintf("127.%d.%d.%d:0", 1+b[0]%254, b[1], 1+b[2]%254)
		if d, err := door.Listen(ctx, c); err == nil {
			return d, nil
		}
	}
	c.Address = "127.0.0.1:0"
	return door.Listen(ctx, c)
}

// waitForEnd waits for a signal or for the end of the server.
func waitForEnd(ctx context.Context, client *control.Client, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-time.After(pollInterval):
		}
		if _, err := control.Call(ctx, client, control.GetQueue, control.NoArguments{}); err != nil && ctx.Err() == nil &&
			!errors.As(err, new(*control.Failure)) {
			return exit.Fail("sandboxmcp serve starts another one", "the server has ended")
		}
	}
}

// browserTime bounds the time in which a browser must read the file with the link.
const browserTime = 5 * time.Second

// openLink opens a link on the desktop. The link is passed in a file that only its user can read, since all users of a
// machine can read command lines.
func openLink(link string) error {
	name, args := "xdg-open", []string(nil)
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler"}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("no desktop was found")
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sandboxmcp-page-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(`<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=`+html.EscapeString(link)+`">`), 0o600); err != nil {
		return err
	}
	if err := exec.Command(program, append(args, file)...).Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	time.Sleep(browserTime)
	return nil
}
