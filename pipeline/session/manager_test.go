package session

import (
	"testing"
	"time"
)

// TestReschedule: a session may end earlier and later than planned, but never lives longer than the operator allows, however it is asked for.
func TestReschedule(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k := NewManager(Config{Lifetime: time.Hour}, func(Info) {})
	defer k.Close()
	s := &Session{manager: k}
	s.info = Info{Created: began, Lifetime: 600, Idle: 600}
	for _, tt := range []struct {
		minutes int
		extend  bool
		want    float64 // seconds
		refused bool
	}{
		{20, false, 1200, false}, {5, false, 300, false}, {2, true, 300, false}, {30, true, 1800, false}, {60, false, 3600, false}, {61, false, 3600, true},
		{10, false, 600, false}, {600, true, 3600, false}, {-1, false, 0, false},
	} {
		err := k.Reschedule(s, began.Add(time.Duration(tt.minutes)*time.Minute), tt.extend)
		if i := s.Info(); i.Lifetime != tt.want || (err != nil) != tt.refused {
			t.Errorf("%d minutes, extend %v: lives for %v seconds, want %v; %v", tt.minutes, tt.extend, i.Lifetime, tt.want, err)
		}
	}
}
