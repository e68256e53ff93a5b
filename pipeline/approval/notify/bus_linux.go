package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

const service = "org.freedesktop.Notifications"

// Address returns where the bus of this user's session is, as the environment says it, or "" if there is none.
func Address(getenv func(string) string) string {
	if a := getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" {
		return a
	}
	bus := filepath.Join(getenv("XDG_RUNTIME_DIR"), "bus")
	if info, err := os.Stat(bus); filepath.IsAbs(bus) && err == nil && info.Mode().Type() == os.ModeSocket {
		return "unix:path=" + bus
	}
	return ""
}

// sockets are those of an address. Other ways to a bus lead to other machines, or start programs.
func sockets(address string) (all []string) {
	for one := range strings.SplitSeq(address, ";") {
		rest, ok := strings.CutPrefix(one, "unix:")
		if !ok {
			continue
		}
		for pair := range strings.SplitSeq(rest, ",") {
			key, text, _ := strings.Cut(pair, "=")
			value, err := url.PathUnescape(text)
			switch {
			case err != nil:
			case key == "path":
				all = append(all, value)
			case key == "abstract":
				all = append(all, "@"+value)
			}
		}
	}
	return all
}

// dial connects to the bus, if it is of this user.
func dial(ctx context.Context, address string) (net.Conn, error) {
	err := errors.New("the address of the session's bus names no socket")
	for _, path := range sockets(address) {
		var d net.Dialer
		var conn net.Conn
		if conn, err = d.DialContext(ctx, "unix", path); err != nil {
			continue
		}
		if err = own(conn.(*net.UnixConn)); err == nil {
			return conn, nil
		}
		conn.Close()
	}
	return nil, err
}

// own returns an error unless our own user listens at the other end.
func own(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed == nil && int(cred.Uid) != os.Geteuid() {
		failed = errors.New("the session's bus is another user's")
	}
	return failed
}

// connect says hello to the bus.
func connect(ctx context.Context, address string) (*dbus.Conn, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // what hangs, hangs here
	defer stop()
	bus, err := dbus.NewConn(&bounded{conn, maxRead}, dbus.WithIncomingInterceptor(answersOnly))
	if err != nil {
		conn.Close()
		return nil, err
	}
	if err = bus.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err == nil {
		err = bus.Hello()
	}
	if err != nil {
		bus.Close()
		return nil, fmt.Errorf("talk to the session's bus: %w", err)
	}
	return bus, nil
}

// maxRead is how much a bus may say to us, in bytes: the few answers that we wait for have some hundred.
const maxRead = 1 << 20

// bounded is a connection of which only so much is read.
type bounded struct {
	net.Conn
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the session's bus says too much")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// answersOnly drops what is no answer to us. The library starts a goroutine for each call, which then waits for a bus
// that does not read, and panics over a signal of the bus itself that is not as it should be.
func answersOnly(m *dbus.Message) {
	if m.Type != dbus.TypeMethodReply && m.Type != dbus.TypeError {
		m.Type = 0
	}
}

// show shows a question until done is closed, or the notifier is.
func (n *Notifier) show(q approval.Question, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(n.ctx, n.timeout)
	defer cancel()
	bus, err := connect(ctx, n.c.Address)
	if err != nil {
		return err
	}
	defer bus.Close()
	desktop := bus.Object(service, "/org/freedesktop/Notifications")
	var can []string
	if err := desktop.CallWithContext(ctx, service+".GetCapabilities", 0).Store(&can); err != nil {
		return fmt.Errorf("ask the desktop: %w", err)
	}
	text := noteOf(q, slices.Contains(can, "body-markup"))
	var id uint32
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(1)), "desktop-entry": dbus.MakeVariant("sandboxmcp")}
	// Close does not end this call at once: what is shown without our knowing its number nobody takes back.
	call, release := context.WithTimeout(context.WithoutCancel(ctx), n.timeout)
	defer release()
	defer context.AfterFunc(n.ctx, func() { time.AfterFunc(closeTimeout, release) })()
	err = desktop.CallWithContext(call, service+".Notify", 0, "sandboxmcp", uint32(0), "dialog-question", text.title, text.body, []string{}, hints, int32(0)).Store(&id)
	if err != nil {
		return fmt.Errorf("notify the desktop: %w", err)
	}
	select {
	case <-done:
	case <-n.ctx.Done():
	case <-bus.Context().Done():
		return nil // the session has ended, and what it showed with it
	}
	after, end := context.WithTimeout(context.Background(), n.timeout)
	defer end()
	return desktop.CallWithContext(after, service+".CloseNotification", 0, id).Err
}
