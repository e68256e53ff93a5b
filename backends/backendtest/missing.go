package backendtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Missing skips a test for want of a thing, or fails it where SANDBOXMCP_TEST_REQUIRE names the thing or
// "all".
func Missing(t testing.TB, thing, why string) {
	t.Helper()
	required := strings.Split(os.Getenv("SANDBOXMCP_TEST_REQUIRE"), ",")
	if slices.Contains(required, thing) || slices.Contains(required, "all") {
		t.Fatalf("%s is required here: %s", thing, why)
	}
	t.Skipf("%s: %s", thing, why)
}
