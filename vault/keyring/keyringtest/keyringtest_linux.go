// Package keyringtest starts a real Secret Service for tests: a session bus and a GNOME keyring, in
// directories of their own. The user's own keyring is not used.
package keyringtest

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Bus is a session bus that belongs to a test.
type Bus struct {
	Home   string // also the keyring's directory
	daemon *exec.Cmd
}

// Start makes this process's environment that of a session with an empty, unlocked keyring, until the test ends. It
// skips the test where the programs are missing, unless SANDBOXMCP_TEST_REQUIRE names keyring.
func Start(t testing.TB) *Bus {
	t.Helper()
	b := StartBus(t)
	b.Unlock(t)
	return b
}

// StartBus is Start without a keyring.
func StartBus(t testing.TB) *Bus {
	t.Helper()
	for _, program := range []string{"dbus-daemon", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			hosttest.SkipMissing(t, "keyring", err.Error())
		}
	}
	if _, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil {
		hosttest.SkipMissing(t, "keyring", "a bus knows users by name: "+err.Error())
	}
	home, err := os.MkdirTemp("", "keyring") // t.TempDir's names are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	socket, conf := filepath.Join(home, "bus"), filepath.Join(home, "bus.conf")
	setenv(t, map[string]string{
		"HOME": home, "XDG_RUNTIME_DIR": home, "XDG_DATA_HOME": filepath.Join(home, "data"), "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home,
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + socket, "GNOME_KEYRING_CONTROL": "", "DISPLAY": "", "WAYLAND_DISPLAY": "",
	})
	if err := os.WriteFile(conf, []byte(strings.ReplaceAll(config, "SOCKET", socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command("dbus-daemon", "--nofork", "--nopidfile", "--config-file="+conf))
	hosttest.Until(t, "there is a bus", func() bool { // its socket may exist before it listens
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return &Bus{Home: home}
}

// config is a bus that starts nothing by itself.
const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// Unlock starts the keyring, with its password; the first call creates it.
func (b *Bus) Unlock(t testing.TB) { b.run(t, "a test's "+"password", "--unlock") }

// Lock starts the keyring without its password, replacing the running one.
func (b *Bus) Lock(t testing.TB) {
	b.Stop(t)
	b.run(t, "")
}

// Stop ends the keyring. The bus stays.
func (b *Bus) Stop(t testing.TB) {
	if b.daemon == nil {
		return
	}
	b.daemon.Process.Kill()
	b.daemon.Wait()
	hosttest.Until(t, "the keyring has ended", func() bool { return !b.isOffered() })
	b.daemon = nil
}

// Process is the running keyring.
func (b *Bus) Process() *os.Process { return b.daemon.Process }

func (b *Bus) run(t testing.TB, password string, args ...string) {
	t.Helper()
	b.daemon = exec.Command("gnome-keyring-daemon", append(args, "--foreground", "--components=secrets", "--control-directory="+b.Home)...)
	b.daemon.Stdin = strings.NewReader(password)
	start(t, b.daemon)
	hosttest.Until(t, "there is a keyring", b.isOffered)
}

// isOffered reports whether a program on the bus is the keyring.
func (b *Bus) isOffered() bool {
	out, err := exec.Command("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.DBus", "/",
		"org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets").Output()
	return err == nil && strings.Contains(string(out), "true")
}

func start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

func setenv(t testing.TB, env map[string]string) {
	for name, value := range env {
		t.Setenv(name, value)
	}
}
