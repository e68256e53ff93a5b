package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
	"github.com/sandboxmcp/sandboxmcp/egress/web/reader"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// profileAt is the browser's profile, in the sandbox's own file system.
const profileAt = backends.Workspace + "/profile"

// browse runs a browser for the page.
func (b *browsing) browse(ctx context.Context) (none Browsed, _ error) {
	sandbox, err := b.open(ctx)
	if err != nil {
		return none, err
	}
	defer sandbox.Close()
	got, out, err := b.read(ctx, sandbox)
	sandbox.Close() // this closes the last connection, so that all traffic is counted
	containment.AddDecisions(b.Run, b.outbound.EndScope())
	b.Outcome.AddProgramResult(out)
	if gone := b.CheckLayers(out.Contained.InForce()); gone != nil && out.Ended != "" {
		return none, gone
	}
	if err != nil {
		return none, b.explain(err, out)
	}
	if err := b.unreached(got); err != nil {
		return none, err
	}
	// we stopped it after reading the page
	b.Outcome.Ended, b.Outcome.ExitCode, b.Outcome.Signal, b.Outcome.Limit = backends.EndedOK, 0, "", ""
	if got.Late != "" {
		b.Outcome.Ended, b.Outcome.Limit = backends.EndedTimeout, "wall"
	}
	return b.answerFrom(ctx, got)
}

// open builds the sandbox and its egress.
func (b *browsing) open(ctx context.Context) (backends.Sandbox, error) {
	defer b.TimeStage(&b.Outcome.Timings.Start)()
	e, w := b.Pipeline.Config.Egress, pipeline.PackageSettings[Config](b.Pipeline)
	var err error
	b.outbound, err = outbound.New(outbound.Config{
		Policy: w.Policy, Ports: slices.DeleteFunc(w.Policy.Ports(), func(p int) bool { return p == backends.DNSPort }),
		Dialer: e.Dialer, Idle: e.Idle, Connections: e.Connections, Budget: b.Pipeline.Budget,
		Namespace: b.Outcome.Namespace,
	})
	if err != nil {
		return nil, err
	}
	var trusted [][]byte
	if w.Authorities != nil {
		trusted = w.Authorities()
	}
	spec := backends.Spec{ID: b.Outcome.ID, Language: "shell", Profile: b.Base, Require: b.Requires, Limits: b.limits.Limits,
		Etc: browser.Trust(trusted)}
	for _, dir := range b.program.Dirs {
		spec.Mounts = append(spec.Mounts, backends.Mount{Host: dir, Inside: dir})
	}
	b.outbound.PrepareSpec(&spec)
	sandbox, err := b.Backend.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	for name, content := range browser.Settings() {
		err = errors.Join(err, sandbox.Files().Put(path.Join("profile", name), 0o600, strings.NewReader(content)))
	}
	if err == nil {
		sandbox, err = b.outbound.Attach(sandbox, outbound.Scope{Run: b.Outcome.ID, Code: b.Code, Record: containment.DecisionRecorder(b.Pipeline,
			b.Outcome.ID, b.Outcome.Namespace, b.Clean)})
	}
	if err != nil {
		sandbox.Close()
		return nil, err
	}
	return sandbox, nil
}

// read runs the browser until the page is read. The browser expects the channel at the descriptors 3 and 4.
func (b *browsing) read(ctx context.Context, sandbox backends.Sandbox) (got browser.Page, out backends.Result, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	channel := make(chan io.ReadWriteCloser, 1)
	ended := make(chan struct{})
	output := &output.Tail{}
	var broken error
	go func() {
		defer close(ended)
		args := append([]string{"/bin/sh", "-c", `exec "$0" "$@" 4>&3`, b.program.Path}, browser.Arguments(profileAt)...)
		out, broken = sandbox.Exec(running, backends.Command{Args: args, Dir: "/tmp", Env: browserEnv},
			backends.Streams{Stdout: output, Stderr: output, Channel: func(c io.ReadWriteCloser) { channel <- c }})
	}()
	select {
	case c := <-channel:
		got, err = browser.Read(ctx, c, browser.Visit{URL: b.at, WaitFor: b.WaitFor, Picture: b.Screenshot, Time: b.Timeout, MaxHTML: maxDOM})
	case <-ended:
		err = browser.ErrLost
	}
	stop()
	<-ended
	if broken != nil {
		return got, out, broken
	}
	last := output.String()
	if words := page.SingleLine(last[max(0, len(last)-maxWords):], maxWords); errors.Is(err, browser.ErrLost) && words != "" {
		err = fmt.Errorf("%w; its output: %s", err, words)
	}
	return got, out, err
}

// maxWords bounds the browser output in an error, in bytes.
const maxWords = 2 << 10

// browserEnv is the browser's environment. There is no message bus, so lookups of one should fail at once.
var browserEnv = []string{"DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:", "HOME=/tmp"}

// noPage is the remedy for a page of an allowed host that is unreachable.
const noPage = "check the address, or try again later"

// explain returns the error for a page that could not be read: the gateway's, if that denied it, else the browser's.
func (b *browsing) explain(err error, out backends.Result) error {
	var load *browser.LoadError
	switch {
	case errors.Is(err, browser.ErrSelector):
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the selector to wait for, %q, is not a CSS selector", b.WaitFor),
			`use one such as "#content" or ".price"`)
	case out.Ended == backends.EndedOOM || slices.Contains(out.Hit, "ram") && !errors.As(err, &load):
		return (&pipeline.Error{Stage: pipeline.StageBackend, Reason: fmt.Sprintf("the page needs more than the browser's memory limit of %d MB",
			b.limits.RAM>>20)}).WithCause(err)
	case errors.Is(err, browser.ErrNoAnswer):
		return (&pipeline.Error{Stage: pipeline.StageBackend, Reason: fmt.Sprintf("timed out after %s s: the server did not answer",
			pipeline.FormatNumber(b.Timeout.Seconds())),
			Remedy: pipeline.Remedy{"raise it with ", remedy.Timeout.With("SECONDS"), ", or try again later"}}).WithCause(err)
	case errors.Is(err, browser.ErrDownload):
		return (&pipeline.Error{Stage: pipeline.StageBackend, Reason: err.Error(),
			Remedy: pipeline.Remedy{remedy.FetchPage, " reads documents"}}).WithCause(err)
	case errors.As(err, &load) && strings.Contains(load.Code, "CERT_AUTHORITY_INVALID"):
		return (&pipeline.Error{Stage: pipeline.StageBackend, Reason: err.Error() + ", from an authority that the browser does not trust",
			Remedy: pipeline.Remedy{"if it is one of your own, add its certificate to those of this machine (as to " +
				"/usr/local/share/ca-certificates) or name it in SSL_CERT_FILE"}}).WithCause(err)
	case !errors.As(err, &load) || !load.Network():
		return fmt.Errorf("the page could not be read: %w", err)
	}
	for _, d := range slices.Backward(b.Outcome.Egress) {
		switch {
		case !d.Allowed:
			return (&pipeline.Error{Stage: pipeline.StageEgress, Denied: true, Reason: fmt.Sprintf("the page can't be loaded: %s: %s", d.Name,
				d.Reason), Remedy: pipeline.Remedy{remedy.OtherPage}}).WithCause(err)
		case d.Failed:
			return (&pipeline.Error{Stage: pipeline.StageEgress, Reason: fmt.Sprintf("the page can't be loaded: %s", d.Reason),
				Remedy: pipeline.Remedy{noPage}}).WithCause(err)
		}
	}
	return err
}

// unreached returns the error for a page that the gateway sent in place of a server.
func (b *browsing) unreached(got browser.Page) error {
	host := b.host(got.URL)
	var why *egress.Record
	for i, d := range b.Outcome.Egress {
		switch {
		case d.Name != host:
		case d.Allowed && !d.Failed:
			return nil
		default:
			why = &b.Outcome.Egress[i]
		}
	}
	if why == nil || got.Status != 403 && got.Status != 502 {
		return nil
	}
	var do any = noPage
	if !why.Allowed {
		do = remedy.OtherPage
	}
	return &pipeline.Error{Stage: pipeline.StageEgress, Denied: !why.Allowed, Reason: "the page can't be loaded: " + why.Reason,
		Remedy: pipeline.Remedy{do}}
}

// answerFrom converts the page to an answer, redacted.
func (b *browsing) answerFrom(ctx context.Context, got browser.Page) (answer Browsed, err error) {
	title, text, err := b.words(ctx, &got)
	if err != nil {
		return answer, err
	}
	text = b.Clean(text) // before it is cut
	answer = Browsed{URL: b.Clean(got.URL), Status: got.Status, Title: b.Clean(title), Total: len(text), Late: b.Clean(got.Late)}
	answer.Host = b.Clean(b.host(got.URL))
	limit := cmp.Or(max(b.MaxBytes, 0), len(text))
	b.Outcome.Stdout, _ = page.Cut(text, 0, limit)
	notes := got.Notes
	if got.Cut {
		notes = append(notes, fmt.Sprintf("the page is larger than %d MB: this is its beginning", maxDOM>>20))
	}
	switch all := got.HTML + got.Text; {
	case got.Picture != nil && b.Leases.Redact(all) != all:
		notes = append(notes, "the picture is withheld: a secret is on the page, and in a picture it can't be covered")
	default:
		answer.Picture = got.Picture
	}
	for _, n := range notes {
		answer.Notes = append(answer.Notes, page.SingleLine(b.Clean(n), pipeline.MaxText))
	}
	b.Facts["url"], b.Facts["status"], b.Facts["text_bytes"], b.Facts["picture_bytes"] = pipeline.LongText(got.URL), got.Status,
		len(b.Outcome.Stdout), len(answer.Picture)
	return answer, nil
}

// host returns the host of a page, or else of the requested address, in the form that policies use.
func (b *browsing) host(address string) string {
	at, err := web.Parse(address)
	if err != nil {
		if at, err = web.Parse(b.at); err != nil {
			return ""
		}
	}
	return pipeline.PackageSettings[Config](b.Pipeline).Policy.Decide(at.Hostname(), 443).Name
}

// words returns a page's title and text in the requested format. The browser provides the visible text; other formats
// are parsed as for any page.
func (b *browsing) words(ctx context.Context, got *browser.Page) (title, text string, err error) {
	end := func(s string) string { return s }
	if got.Cut {
		end = b.CleanEnd
	}
	title = page.SingleLine(got.Title, 300)
	secret := b.Leases.Redact(got.Text) != got.Text
	if secret && b.Format != page.Text { // markup such as <b> or ** may split a secret
		got.Notes = append(got.Notes, "a secret is on the page: it is returned as plain text, where all of it can be covered")
	}
	if secret || b.Format == page.Text {
		return title, page.Clean(end(got.Text)), nil
	}
	layers := b.Outcome.Layers // of the browser, not of the reader
	defer func() { b.Outcome.Layers = layers }()
	a, err := readPage(ctx, b.Run, reader.Question{URL: got.URL, Type: "text/html; charset=utf-8", Format: b.Format,
		Body: []byte(end(got.HTML))})
	if a.Page.Note != "" {
		got.Notes = append(got.Notes, a.Page.Note)
	}
	return cmp.Or(title, a.Page.Title), a.Page.Text, err
}
