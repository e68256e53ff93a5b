package podman

import (
	"testing"
	"time"
)

func TestSameUptime(t *testing.T) {
	for _, test := range []struct {
		ours   time.Duration
		theirs string
		want   bool
	}{
		{36762 * time.Second, "10h 12m 42.00s (Approximately 0.42 days)", true},
		{36762 * time.Second, "10h 13m 42.00s (Approximately 0.42 days)", true}, // rounded minutes
		{7180 * time.Second, "2h 60m 40.00s (Approximately 0.08 days)", true},   // rounded hours
		{45 * time.Second, "45.00s", true},
		{36762 * time.Second, "10h 13m 20.00s", false},
		{36762 * time.Second, "2h 12m 42.00s", false},
	} {
		theirs, err := parseUptime(test.theirs)
		if err != nil {
			t.Errorf("%s: %v", test.theirs, err)
		}
		if got := sameUptime(test.ours, theirs); got != test.want {
			t.Errorf("%v and %s: got %v", test.ours, test.theirs, got)
		}
	}
	if _, err := parseUptime("since yesterday"); err == nil {
		t.Error("nonsense was read")
	}
}
