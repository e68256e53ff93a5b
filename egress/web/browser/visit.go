package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	pollInterval = 50 * time.Millisecond // between checks of a condition
	quiet        = 250 * time.Millisecond
	settleTime   = 3 * time.Second // for fetches after the load event
	readGrace    = 4 * time.Second // for reading a page after its time is up
)

// ErrNoAnswer is the error for a server without an answer in time.
var ErrNoAnswer = errors.New("the server had not answered in time")

// ErrDownload is the error for an address that is a download.
var ErrDownload = errors.New("it is a file to download, which the browser does not do")

// ErrSelector is the error for an invalid CSS selector in Visit.WaitFor.
var ErrSelector = errors.New("it is not a CSS selector")

// Read visits a page with the browser at the other end of conn, and closes conn. An error means that no part of the
// page could be read.
func Read(ctx context.Context, conn io.ReadWriteCloser, v Visit) (Page, error) {
	t := &visit{Visit: v, eventState: &eventState{loading: map[string]struct{}{}}}
	return t.run(ctx, conn)
}

func (t *visit) run(ctx context.Context, conn io.ReadWriteCloser) (Page, error) {
	t.wire = newWire(conn, t.handleEvent)
	t.tell = t.wire.sendNoReply
	defer t.wire.close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := t.openTarget(ctx); err != nil {
		return Page{}, fmt.Errorf("open a page in the browser: %w", err)
	}
	if err := t.checkSelector(ctx); err != nil {
		return Page{}, err
	}
	t.until = time.Now().Add(t.Time)
	soon, cancel := context.WithDeadline(ctx, t.until)
	defer cancel()
	late, err := t.navigateAndWait(soon)
	if err != nil {
		return Page{}, err
	}
	p, err := t.readPage(ctx)
	p.Late = late
	if err != nil && late != "" {
		err = fmt.Errorf("%s, and the page can't be read: %w", late, err)
	}
	return p, err
}

// visit is a visit under way.
type visit struct {
	Visit
	*eventState
	wire  *wire
	tab   session
	until time.Time // when the page is read in any state
}

// openTarget creates and configures the page's target.
func (t *visit) openTarget(ctx context.Context) error {
	b := session{t.wire, ""}
	var own struct{ BrowserContextID string }
	if err := b.call(ctx, "Target.createBrowserContext", object{}, &own); err != nil {
		return err
	}
	deny := object{"behavior": "deny", "browserContextId": own.BrowserContextID, "eventsEnabled": true}
	if err := b.call(ctx, "Browser.setDownloadBehavior", deny, nil); err != nil {
		return err
	}
	var made struct{ TargetID string }
	empty := object{"url": "about:blank", "browserContextId": own.BrowserContextID, "width": Width, "height": Height}
	if err := b.call(ctx, "Target.createTarget", empty, &made); err != nil {
		return err
	}
	var at struct{ SessionID string }
	if err := b.call(ctx, "Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &at); err != nil {
		return err
	}
	t.tab = session{t.wire, at.SessionID}
	t.session = t.tab.id
	for _, c := range []struct {
		method string
		params object
	}{
		{"Page.enable", object{}},
		{"Page.setLifecycleEventsEnabled", object{"enabled": true}},
		{"Network.enable", object{}},
		{"Inspector.enable", object{}},
		{"Target.setAutoAttach", object{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}},
		{"Emulation.setDeviceMetricsOverride", object{"width": Width, "height": Height, "deviceScaleFactor": 1, "mobile": false}},
	} {
		if err := t.tab.call(ctx, c.method, c.params, nil); err != nil {
			return err
		}
	}
	var tree struct {
		FrameTree struct{ Frame struct{ ID string } }
	}
	err := t.tab.call(ctx, "Page.getFrameTree", object{}, &tree)
	if err == nil && tree.FrameTree.Frame.ID == "" {
		err = errors.New("the page has no frame")
	}
	t.frame = tree.FrameTree.Frame.ID
	return err
}

// checkSelector validates the selector on the empty page.
func (t *visit) checkSelector(ctx context.Context) error {
	if t.WaitFor == "" {
		return nil
	}
	var there bool
	err := t.evaluate(ctx, selectorQuery(t.WaitFor), &there)
	if thrown := (*scriptError)(nil); errors.As(err, &thrown) {
		return ErrSelector
	}
	return err
}

func selectorQuery(selector string) string {
	s, _ := json.Marshal(selector) // can't fail for a string
	return "document.querySelector(" + string(s) + ") !== null"
}

// navigateAndWait navigates to the page and waits until it can be read, or until ctx ends: then late is the missing
// condition.
func (t *visit) navigateAndWait(ctx context.Context) (late string, err error) {
	going := t.wire.send(t.tab.id, "Page.navigate", object{"url": t.URL})
	arrived := false    // the page's answer has begun to
	var since time.Time // of load
	for {
		m, err := t.awaitBriefly(ctx, going)
		switch {
		case err == nil:
			if err := t.navigationError(ctx, m); err != nil {
				return "", err
			}
			arrived, going = true, 0
		case errors.Is(err, ErrLost):
			return "", err
		case ctx.Err() != nil && !arrived:
			return "", ErrNoAnswer // the browser blocks access to the empty page meanwhile
		case ctx.Err() != nil:
			return t.lateReason(), nil
		}
		switch {
		case t.crashed:
			return "", errCrashed
		case !arrived:
		case t.WaitFor != "":
			if t.isPresent(ctx) {
				return "", nil
			}
		case !t.loaded:
			since = time.Time{}
		default:
			if since.IsZero() {
				since = time.Now()
			}
			if still := len(t.loading) == 0 && time.Since(t.busy) > quiet; still || time.Since(since) > settleTime {
				return "", nil
			}
		}
	}
}

// awaitBriefly waits briefly for an answer.
func (t *visit) awaitBriefly(ctx context.Context, id int64) (m message, err error) {
	err = within(ctx, pollInterval, func(ctx context.Context) error {
		m, err = t.wire.await(ctx, id)
		return err
	})
	return m, err
}

// isPresent reports whether WaitFor matches an element of the page. A busy or navigating page has a moment to answer.
func (t *visit) isPresent(ctx context.Context) (there bool) {
	err := within(ctx, time.Second, func(ctx context.Context) error { return t.evaluate(ctx, selectorQuery(t.WaitFor), &there) })
	return err == nil && there
}

// errCrashed is the error for a page whose process has ended, which the page can cause.
var errCrashed = errors.New("the page's process has ended, as it does where the page takes too much memory")

func (t *visit) lateReason() string {
	if t.WaitFor != "" {
		return fmt.Sprintf("nothing on the page had matched %s within %s", printable(t.WaitFor, 200), t.Time)
	}
	return fmt.Sprintf("the page had not finished loading within %s", t.Time)
}

// navigationError returns the error of an answer to Page.navigate.
func (t *visit) navigationError(ctx context.Context, m message) error {
	var r struct {
		ErrorText  string
		IsDownload bool
	}
	if err := m.decodeResult(&r); err != nil {
		return fmt.Errorf("navigate: %w", err)
	}
	aborted := strings.HasSuffix(r.ErrorText, "net::ERR_ABORTED")
	if aborted && !r.IsDownload {
		t.awaitBriefly(ctx, 0) // the event with the reason may follow the answer
	}
	switch {
	case r.IsDownload || aborted && t.downloads > 0:
		return ErrDownload
	case aborted && t.crashed:
		return errCrashed
	case r.ErrorText != "":
		return &LoadError{Code: printable(r.ErrorText, 100)}
	}
	return nil
}

// LoadError is the error for a page that could not be loaded.
type LoadError struct {
	Code string // as Chromium names it: "net::ERR_NAME_NOT_RESOLVED"
}

func (e *LoadError) Error() string { return "the page can't be loaded: " + e.Code }

// Network reports whether the cause may be the network, about which the gateway knows more.
func (e *LoadError) Network() bool {
	return slices.ContainsFunc([]string{"NAME_NOT_RESOLVED", "CONNECTION", "EMPTY_RESPONSE", "ADDRESS_", "TIMED_OUT", "SSL",
		"INTERNET_DISCONNECTED", "NETWORK"},
		func(part string) bool { return strings.Contains(e.Code, part) })
}

// scriptError is an exception in our own script.
type scriptError struct{ text string }

func (e *scriptError) Error() string { return "in the page: " + e.text }

// evaluate evaluates an expression in an isolated world, whose objects the page can't change.
func (t *visit) evaluate(ctx context.Context, expression string, result any) error {
	var world struct{ ExecutionContextID int64 }
	if err := t.tab.call(ctx, "Page.createIsolatedWorld", object{"frameId": t.frame, "worldName": "reader"}, &world); err != nil {
		return err
	}
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	evaluate := object{"expression": expression, "contextId": world.ExecutionContextID, "returnByValue": true, "silent": true}
	switch err := t.tab.call(ctx, "Runtime.evaluate", evaluate, &r); {
	case err != nil:
		return err
	case r.ExceptionDetails != nil:
		return &scriptError{printable(r.ExceptionDetails.Text, 200)}
	case r.Result.Value == nil:
		return errors.New("the browser answered without a result")
	}
	if err := json.Unmarshal(r.Result.Value, result); err != nil {
		return fmt.Errorf("read what the page holds: %w", err)
	}
	return nil
}
