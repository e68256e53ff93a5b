package notify

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

// startHostile starts a bus that greets who comes, says what say writes, and then reads nothing any more.
func startHostile(t *testing.T, say func(io.Writer, io.Reader)) (address string, logged <-chan struct{}) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { conn.Close() })
		in := bufio.NewReader(conn)
		for {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.HasPrefix(line, "BEGIN"):
				if hello, err := dbus.DecodeMessage(in); err == nil {
					answer(conn, hello, ":1.1")
					say(conn, in)
				}
				return
			case strings.Contains(line, "EXTERNAL"):
				io.WriteString(conn, "OK 0123\r\n")
			default:
				io.WriteString(conn, "REJECTED EXTERNAL\r\n")
			}
		}
	}()
	return "unix:path=" + path, done
}

func answer(w io.Writer, to *dbus.Message, body any) {
	m := &dbus.Message{Type: dbus.TypeMethodReply, Body: []any{body}, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(to.Serial()), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body)),
	}}
	m.EncodeTo(w, binary.LittleEndian)
}

// message is one that nobody has asked for.
func message(kind dbus.Type, member string) *dbus.Message {
	return &dbus.Message{Type: kind, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/DBus")), dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.DBus"),
		dbus.FieldMember: dbus.MakeVariant(member), dbus.FieldSender: dbus.MakeVariant("org.freedesktop.DBus"),
	}}
}

// TestHostileBus: whatever it says, this process lives, stays small, and ends.
func TestHostileBus(t *testing.T) {
	for name, say := range map[string]func(io.Writer, io.Reader){
		"a name that is none": func(w io.Writer, r io.Reader) {
			can, err := dbus.DecodeMessage(r)
			if err != nil {
				return
			}
			message(dbus.TypeSignal, "NameLost").EncodeTo(w, binary.LittleEndian)
			answer(w, can, []string{})
			dbus.DecodeMessage(r) // comes when it has read all that
		},
		"many calls": func(w io.Writer, _ io.Reader) {
			for range 20_000 {
				if message(dbus.TypeMethodCall, "Nothing").EncodeTo(w, binary.LittleEndian) != nil {
					return
				}
			}
		},
		"no end": func(w io.Writer, _ io.Reader) {
			for line := []byte(strings.Repeat("l", 64<<10)); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		},
		"a huge one": func(w io.Writer, _ io.Reader) {
			w.Write([]byte{'l', 2, 0, 1, 0, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0})
			io.Copy(w, strings.NewReader(strings.Repeat("\x00", 8<<20)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			address, logged := startHostile(t, say)
			n := New(Config{Address: address})
			n.Watch(question, make(chan struct{}))
			<-logged
			if more := runtime.NumGoroutine() - before; more > 50 {
				t.Errorf("%d goroutines more", more)
			}
			n.Close()
		})
	}
}
