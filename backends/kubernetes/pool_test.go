package kubernetes

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// idleContainer returns a container for a pool.
func idleContainer() container.Container {
	return container.Container{Name: "sandboxmcp-" + strings.ToLower(ulid.Make().String()), Image: "image", Args: []string{"init", "python"},
		User: "1000:1000", Idle: true, Labels: map[string]string{container.LabelInstance: "i"}}
}

// makeIdle has a server make n idle pods that run.
func makeIdle(t *testing.T, f *fakeAPI, c *cluster, n int) (ids []string) {
	t.Helper()
	for range n {
		id, err := c.Create(t.Context(), idleContainer())
		if err != nil {
			t.Fatal(err)
		}
		f.setStatus(id, runningStatus())
		if err := c.Offer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// TestRace has servers race for 100 idle pods, both their own and others', while the kubelet writes their status:
// each pod is claimed by one server, and none is left.
func TestRace(t *testing.T) {
	f := newFake()
	f.latency = func(string) time.Duration { return time.Duration(rand.IntN(2000)) * time.Microsecond }
	servers := []*cluster{f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"})}
	own := [][]string{makeIdle(t, f, servers[0], 50), makeIdle(t, f, servers[1], 50), nil}
	var mu sync.Mutex
	has := map[string]int{}
	won := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		has[id]++
	}
	var all sync.WaitGroup
	for i, c := range servers {
		all.Go(func() { // its own pods
			for _, id := range own[i] {
				f.setStatus(id, map[string]any{"podIP": "192.0.2.2"})
				switch err := c.Reserve(t.Context(), id, nil); {
				case err == nil:
					won(id)
				case !errors.Is(err, container.ErrTaken):
					t.Error(err)
				}
			}
		})
		for range 4 { // other servers' pods
			all.Go(func() {
				for {
					id, err := c.LeaseIdle(t.Context(), idleContainer())
					if err != nil {
						t.Error(err)
					}
					if id == "" {
						return
					}
					won(id)
				}
			})
		}
	}
	all.Wait()
	for id, n := range has {
		if n != 1 {
			t.Errorf("%s is %d servers'", id, n)
		}
	}
	if len(has) != 100 {
		t.Errorf("%d of 100 pods were claimed", len(has))
	}
	if f.counts["PATCH 409"] == 0 {
		t.Error("there was no conflict: nobody raced")
	}
	t.Logf("%v", f.counts)
}

// TestRemoveTaken has a server remove a pod that another has claimed: it stays.
func TestRemoveTaken(t *testing.T) {
	f := newFake()
	a, b := f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"})
	ids := makeIdle(t, f, a, 2)
	taken, err := b.LeaseIdle(t.Context(), idleContainer())
	if err != nil || taken == "" {
		t.Fatalf("got %q, %v", taken, err)
	}
	for _, id := range ids {
		if err := a.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	left, err := b.List(t.Context(), labelLease+"="+b.lease.name)
	if err != nil || len(left) != 1 || left[0].ID != taken {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := b.Remove(t.Context(), taken); err != nil {
		t.Error(err)
	}
	if left, err := b.List(t.Context(), labelRole+"="+roleSandbox); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestTakeOther checks that no pod is claimed that differs, is not running, is terminating, or is in use.
func TestTakeOther(t *testing.T) {
	f := newFake()
	a, b := f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"})
	gvisor := f.server(t, Config{Image: "own", RuntimeClass: "gvisor"})
	early := idleContainer()
	if _, err := a.Create(t.Context(), early); err != nil { // not running yet
		t.Fatal(err)
	}
	if err := a.Offer(t.Context(), early.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Create(t.Context(), idleContainer()); err != nil { // not offered yet
		t.Fatal(err)
	}
	used := idleContainer()
	used.Idle = false
	if _, err := a.Create(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	f.setStatus(used.Name, runningStatus())
	makeIdle(t, f, gvisor, 1)
	if id, err := b.LeaseIdle(t.Context(), idleContainer()); id != "" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
	for _, other := range []func(*container.Container){
		func(c *container.Container) { c.Image = "another" },
		func(c *container.Container) { c.Resources.Memory = 1 },
		func(c *container.Container) { c.Args = []string{"init", "node"} },
	} {
		of := idleContainer()
		other(&of)
		makeIdle(t, f, a, 1)
		if id, err := b.LeaseIdle(t.Context(), of); id != "" || err != nil {
			t.Errorf("got %q, %v", id, err)
		}
	}
	if id, err := b.LeaseIdle(t.Context(), idleContainer()); id == "" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
}

// TestReapTaken has a server die, another claim its idle pod, and a third remove the rest: the claimed pod stays.
func TestReapTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.latency = func(string) time.Duration { return time.Millisecond }
		dead, live := f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"})
		makeIdle(t, f, dead, 2)
		dead.lease.cancel()
		taken, err := live.LeaseIdle(t.Context(), idleContainer())
		if err != nil || taken == "" {
			t.Fatalf("got %q, %v", taken, err)
		}
		time.Sleep(10 * defaultLease)
		left, err := live.List(t.Context(), labelRole+"="+roleSandbox)
		if err != nil || len(left) != 1 || left[0].ID != taken {
			t.Errorf("left: %v, %v", left, err)
		}
		if err := live.get(t.Context(), live.pathOf(leaseGroup, "leases", dead.lease.name), nil, nil); !isStatus(err, http.StatusNotFound) {
			t.Errorf("the dead server's lease: %v", err)
		}
	})
}

// TestOutageLeaves has an API server stop answering: a removal soon ends with an error, and is retried later.
func TestOutageLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var away bool
		f.latency = func(string) time.Duration {
			if away {
				return time.Hour
			}
			return time.Millisecond
		}
		c := f.server(t, Config{Image: "own"})
		ids := makeIdle(t, f, c, 1)
		busy := idleContainer()
		busy.Idle = false
		if _, err := c.Create(t.Context(), busy); err != nil {
			t.Fatal(err)
		}
		away = true
		begun := time.Now()
		for _, id := range append(ids, busy.Name) {
			if err := c.Remove(context.Background(), id); err == nil {
				t.Errorf("%s: no error", id)
			}
		}
		if took := time.Since(begun); took > 3*(outage+removeTimeout) {
			t.Errorf("two removals took %v", took)
		}
		away = false
		time.Sleep(2 * defaultLease)
		if left, err := c.List(t.Context(), labelRole+"="+roleSandbox); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// TestOutageSpares has the API server hang, refuse, or lose its storage for longer than a lease's duration, while
// two servers have six runs in progress: neither loses a pod, and a server that ended meanwhile loses its pods.
func TestOutageSpares(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(q *http.Request, left time.Duration) error
	}{
		{"hangs", func(q *http.Request, left time.Duration) error {
			select {
			case <-time.After(left): // then serve it: the API server was only paused
			case <-q.Context().Done():
			}
			return q.Context().Err()
		}},
		{"refuses", func(*http.Request, time.Duration) error { return errors.New("connection refused") }},
		{"reads only", func(q *http.Request, _ time.Duration) error {
			if q.Method == http.MethodGet {
				return nil
			}
			return errors.New("etcdserver: request timed out")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.latency = func(string) time.Duration { return time.Millisecond }
				var back time.Time
				f.fail = func(q *http.Request) error {
					if left := time.Until(back); left > 0 {
						return tt.fail(q, left)
					}
					return nil
				}
				a, b, dead := f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"})
				for _, c := range []*cluster{a, b, dead, a, b, a, b} {
					of := idleContainer()
					of.Idle = false
					if _, err := c.Create(t.Context(), of); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second) // desynchronises the servers
				}
				dead.lease.cancel()
				back = time.Now().Add(40 * time.Second)
				time.Sleep(10 * defaultLease)
				for _, c := range []*cluster{a, b, dead} {
					left, err := a.List(t.Context(), labelLease+"="+c.lease.name)
					want := 3
					if c == dead {
						want = 0
					}
					if err != nil || len(left) != want {
						t.Errorf("%d pods are left, want %d; %v", len(left), want, err)
					}
				}
			})
		})
	}
}

// TestBreakSpares has a paused server find another server that was paused, too: it counts anew.
func TestBreakSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := f.server(t, Config{Image: "own"}), f.server(t, Config{Image: "own"})
		a.lease.cancel()
		b.lease.cancel()
		<-a.lease.done
		<-b.lease.done
		var o observed
		there := func() bool { return a.get(t.Context(), a.pathOf(leaseGroup, "leases", b.lease.name), nil, nil) == nil }
		a.lease.sweep(t.Context(), &o)
		time.Sleep(10 * defaultLease)
		a.lease.sweep(t.Context(), &o)
		if !there() {
			t.Error("a server that was stopped took the other for dead")
		}
		for range 6 {
			time.Sleep(defaultLease / 4)
			a.lease.sweep(t.Context(), &o)
		}
		if there() {
			t.Error("a server that is silent while its lease is read is not taken for dead")
		}
	})
}

// TestLostNode has one pod vanish by force, one fail with its node, and one be evicted: Wait returns the reason,
// and never a success.
func TestLostNode(t *testing.T) {
	f := newFake()
	c := f.server(t, Config{Image: "own"})
	hosttest.Until(t, "the server watches its pods", func() bool { // this API server does not repeat earlier events
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.watchers) > 0
	})
	for _, tt := range []struct {
		name string
		lose func(id string)
		want string
	}{
		{"force", f.vanish, "removed"},
		{"node", func(id string) {
			f.setStatus(id, map[string]any{"phase": "Failed", "reason": "NodeLost", "message": "Node node1 which was running pod is unresponsive"})
		}, "NodeLost"},
		{"evicted", func(id string) {
			f.setStatus(id, map[string]any{"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."})
		}, "Evicted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			of := idleContainer()
			of.Idle = false
			if _, err := c.Create(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			f.setStatus(of.Name, runningStatus())
			go tt.lose(of.Name)
			e, err := c.Wait(t.Context(), of.Name)
			switch why := e.Why; {
			case err != nil:
				t.Error(err)
			case e.Removed && tt.want == "removed":
			case e.Code == 0 || !strings.Contains(why, tt.want):
				t.Errorf("got %+v", e)
			}
		})
	}
}
