package notify

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// startBus starts a bus of the test's own, and returns its address.
func startBus(t *testing.T) string {
	t.Helper()
	daemon := hosttest.Program(t, "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "a bus")
	conf := filepath.Join(dir, "bus.conf")
	os.WriteFile(conf, []byte(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=`+strings.ReplaceAll(socket, " ", "%20")+`</listen>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="false"/><allow own="*"/><allow user="*"/></policy></busconfig>`),
		0o600)
	c := exec.Command(daemon, "--config-file="+conf, "--nofork")
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	hosttest.Until(t, "the bus listens", func() bool {
		conn, err := net.Dial("unix", socket)
		return err == nil && conn.Close() == nil
	})
	return "unix:path=" + strings.ReplaceAll(socket, " ", "%20")
}

// desktop is a small notification service, which reports the notifications that it should display.
type desktop chan []string

func (d desktop) GetCapabilities() ([]string, *dbus.Error) {
	return []string{"body", "body-markup", "actions"}, nil
}

func (d desktop) GetServerInformation() (name, vendor, version, spec string, _ *dbus.Error) {
	return "test", "test", "1", "1.2", nil
}

func (d desktop) Notify(app string, _ uint32, _, title, body string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32,
	*dbus.Error) {
	d <- append([]string{app, title, body}, actions...)
	return 1, nil
}

func startDesktop(t *testing.T, address string) desktop {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	const service = "org.freedesktop.Notifications"
	d := make(desktop, 10)
	if err := conn.Export(d, "/org/freedesktop/Notifications", service); err != nil {
		t.Fatal(err)
	}
	if r, err := conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(r, err)
	}
	return d
}

var question = approval.Question{
	ID: "01K9ZB5W7Q3M8Y2D4F6H8J0K2M", Kind: approval.Package, What: `--icon=x python: <b>requests</b> \074i\076 & ` +
		"\x1b[2J\u202e\nclient me", Namespace: "team", Session: "s",
	Client: "agent 1.0", Reason: "because <a href=\"http://evil.example\">I</a> need it", For: time.Hour,
}

// TestNotification has the real notify-send show a question: text that an agent chose is neither markup nor an escape
// there, and there are no buttons.
func TestNotification(t *testing.T) {
	program := hosttest.Program(t, "notify-send")
	address := startBus(t)
	d := startDesktop(t, address)
	Send(program, []string{"DBUS_SESSION_BUS_ADDRESS=" + address, "LANG=C.UTF-8"})(question)
	got := <-d
	if len(got) != 3 || got[0] != "sandboxmcp" || got[1] != "sandboxmcp: an agent asks for packages" {
		t.Fatalf("got %q", got)
	}
	body := got[2]
	if strings.ContainsAny(body, "<>\x1b\u202e\\") || strings.Contains(body, "\nclient me") {
		t.Errorf("it can change how it reads: %q", body)
	}
	for _, want := range []string{"--icon=x python: &lt;b&gt;requests&lt;/b&gt; &#92;074i&#92;076 &amp; " +
		"&#92;x1b[2J&#92;u202e&#92;nclient me\n", "\nnamespace team\nsession s\nclient agent 1.0\nthe agent says: because", "\nfor 1h0m0s\n",
		"\nanswer with: sandboxmcp approve 01K9ZB5W7Q3M8Y2D4F6H8J0K2M"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %q", want, body)
		}
	}
}

// TestSend: the words reach the program as they are, none as an option, and questions wait for no program; of many that
// hang, a few run.
func TestSend(t *testing.T) {
	hosttest.Program(t, "sh")
	dir := t.TempDir()
	program := filepath.Join(dir, "notify-send")
	script := "#!/bin/sh\nfor word in \"$@\"; do printf '%s|' \"$word\"; done >\"$DIR/$$.part\"\nmv \"$DIR/$$.part\" \"$DIR/$$.words\"\n[ " +
		"-z \"$HANG\" ] || exec sleep 60\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	words := func() []string {
		files, _ := filepath.Glob(filepath.Join(dir, "*.words"))
		return files
	}
	Send(program, []string{"PATH=" + os.Getenv("PATH"), "DIR=" + dir})(question)
	hosttest.Until(t, "it is shown", func() bool { return len(words()) == 1 })
	got, err := os.ReadFile(words()[0])
	if want := "--app-name=sandboxmcp|--icon=dialog-question|--|sandboxmcp: an agent asks for packages|--icon=x python: "; err != nil ||
		!strings.HasPrefix(string(got), want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	hanging := Send(program, []string{"PATH=" + os.Getenv("PATH"), "DIR=" + dir, "HANG=1"})
	for range 50 {
		hanging(question)
	}
	hosttest.Until(t, "some run", func() bool { return len(words()) == 5 })
	hosttest.Until(t, "they are ended, and there is room again", func() bool {
		hanging(question)
		return len(words()) > 5
	})
	Send(filepath.Join(dir, "nowhere"), nil)(question) // is silence
}
