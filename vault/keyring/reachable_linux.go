package keyring

import (
	"fmt"
	"os"
)

// checkReachable returns an error if the library would find no session bus: it would then start one that nobody ends
// and that has no keyring. The places checked are the library's.
func checkReachable() error {
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && address != "autolaunch:" {
		return nil
	}
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(fmt.Sprintf("/run/user/%d/%s", os.Getuid(), name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: there is no session bus (DBUS_SESSION_BUS_ADDRESS is not set): log in to a session, "+
		"or start one with dbus-run-session, %s", ErrUnavailable, useFileInstead)
}
