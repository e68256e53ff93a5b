package session

import (
	"testing"
	"time"
	"unsafe"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// TestReschedule: a session may end earlier and later than planned, but never lives longer than the operator allows,
// however it is asked for.
func TestReschedule(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k := NewManager(Config{Lifetime: time.Hour}, func(Info) {})
	defer k.Close()
	s := &Session{manager: k, began: began}
	s.info = Info{Created: began, Lifetime: 600, Idle: 600}
	for _, tt := range []struct {
		minutes int
		extend  bool
		want    float64 // seconds
		refused bool
	}{
		{20, false, 1200, false}, {5, false, 300, false}, {2, true, 300, false}, {30, true, 1800, false}, {60, false, 3600, false},
		{61, false, 3600, true},
		{10, false, 600, false}, {600, true, 3600, false}, {-1, false, 0, false},
	} {
		err := k.Reschedule(s, began.Add(time.Duration(tt.minutes)*time.Minute), tt.extend)
		if i := s.Info(); i.Lifetime != tt.want || (err != nil) != tt.refused {
			t.Errorf("%d minutes, extend %v: lives for %v seconds, want %v; %v", tt.minutes, tt.extend, i.Lifetime, tt.want, err)
		}
	}
}

// jump returns a time of which the wall clock differs by d, as the time of a clock that was set meanwhile: its
// monotonic reading stays.
func jump(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	there := at
	// The first word of a time with a monotonic reading has the wall clock's seconds above 30 bits of nanoseconds.
	*(*uint64)(unsafe.Pointer(&there)) += uint64(int64(d/time.Second)) << 30
	if there.Sub(at) != 0 || there.Round(0).Sub(at.Round(0)) != d {
		t.Fatalf("a jump by %v is one by %v, and by %v of the monotonic clock", d, there.Round(0).Sub(at.Round(0)), there.Sub(at))
	}
	return there
}

// TestClockJumps: a wall clock that is set ends no session early, and extends none.
func TestClockJumps(t *testing.T) {
	const idle, lifetime = time.Minute, 10 * time.Minute
	for _, tt := range []struct {
		name         string
		unused, used time.Duration // that pass before and after the session is used
		moved        time.Duration // of its end, set after the jump; 0 leaves it
		ended        string
	}{
		{name: "nothing passes"},
		{name: "almost idle", unused: idle - time.Second},
		{name: "idle", unused: idle, ended: "idle"},
		{name: "used meanwhile", unused: idle - time.Second, used: idle - time.Second},
		{name: "idle after its use", unused: idle - time.Second, used: idle, ended: "idle"},
		{name: "lifetime", unused: lifetime, ended: "lifetime"},
		{name: "an end that is set", unused: 20 * time.Second, moved: 30 * time.Second, used: 29 * time.Second},
		{name: "an end that is set has come", unused: 20 * time.Second, moved: 30 * time.Second, used: 30 * time.Second, ended: "lifetime"},
	} {
		for _, d := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			t.Run(tt.name+" "+d.String(), func(t *testing.T) {
				begun := time.Now()
				now := begun
				k := &Manager{cfg: Config{Lifetime: lifetime, Now: func() time.Time { return now }}, ended: func(Info) {}, all: map[string]*Session{}}
				s := &Session{manager: k, began: now, dead: make(chan struct{}), sandbox: noSandbox{}, plan: Plan{Leases: &vault.LeaseSet{}}}
				s.info = Info{ID: "one", Created: k.now(), Lifetime: lifetime.Seconds(), Idle: idle.Seconds()}
				k.all["one"] = s
				useOnce(t, s)
				now = jump(t, now.Add(tt.unused), d)
				if tt.used > 0 {
					useOnce(t, s)
				}
				if tt.moved > 0 {
					if err := k.Reschedule(s, now.Add(tt.moved), false); err != nil {
						t.Fatal(err)
					}
				}
				now = now.Add(tt.used)
				k.expire()
				if got := s.Info().Ended; got != tt.ended {
					t.Errorf("the session ended by %q, want %q", got, tt.ended)
				}
			})
		}
	}
}

// noSandbox is one that can only be closed.
type noSandbox struct{ backends.Sandbox }

func (noSandbox) Close() error { return nil }

func useOnce(t *testing.T, s *Session) {
	t.Helper()
	done, err := s.Use()
	if err != nil {
		t.Fatal(err)
	}
	done()
}
