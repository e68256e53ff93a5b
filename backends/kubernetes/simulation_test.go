package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Assumptions of the simulation, which the README names.
const (
	simNodes   = 100
	simServers = 4
	simIdle    = 1000                    // idle pods at the beginning, of all servers together: ten per node
	simRate    = 1000                    // claims per second
	simClaims  = 900                     // per burst, of two: nodes start pods more slowly than that
	simInMany  = 200                     // modifying requests that an API server serves at once (max-mutating-requests-inflight)
	simPatch   = 8 * time.Millisecond    // median; one in a hundred takes five times as long
	simList    = 20 * time.Millisecond   // of idle pods
	simPod     = 1200 * time.Millisecond // from a pod's creation until its init waits, on an idle node
	simAtOnce  = 10                      // pods that one node starts at a time
)

// simServer is one server with its idle pods.
type simServer struct {
	*cluster
	mu   sync.Mutex
	idle []string
}

func (s *simServer) popIdle() (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) > 0 {
		id, s.idle = s.idle[0], s.idle[1:]
	}
	return id
}

// refill makes one idle pod.
func (s *simServer) refill(ctx context.Context) error {
	id, err := s.Create(ctx, idleContainer())
	if err != nil {
		return err
	}
	if _, gone, err := s.pods.await(ctx, id, func(p pod) bool { ready, _ := checkRunning(p); return ready }); gone || err != nil {
		return fmt.Errorf("pod %s: gone %v, %v", id, gone, err)
	}
	if err := s.Offer(ctx, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, id)
	return nil
}

// obtain claims a pod for the server: one of its own, or another server's.
func (s *simServer) obtain(ctx context.Context) (id string, err error) {
	for id = s.popIdle(); id != ""; id = s.popIdle() {
		if s.Reserve(ctx, id, nil) == nil {
			return id, nil
		}
	}
	return s.LeaseIdle(ctx, idleContainer())
}

// newSimulatedCluster returns a cluster whose nodes take time to start pods.
func newSimulatedCluster() *fakeAPI {
	f := newFake()
	changes := make(chan struct{}, simInMany)
	f.latency = func(method string) time.Duration {
		if method == http.MethodGet {
			return simList
		}
		changes <- struct{}{}
		defer func() { <-changes }()
		took := simPatch/2 + time.Duration(rand.Int64N(int64(simPatch)))
		if rand.IntN(100) == 0 {
			took *= 5
		}
		time.Sleep(took)
		return 0
	}
	var next atomic.Int64
	var nodes [simNodes]chan struct{}
	for i := range nodes {
		nodes[i] = make(chan struct{}, simAtOnce)
	}
	f.start = func(p map[string]any) {
		node := nodes[next.Add(1)%simNodes] // spreads pods like the scheduler
		node <- struct{}{}
		time.Sleep(simPod + time.Duration(len(node))*simPod/simAtOnce)
		<-node
		f.setStatus(metaOf(p)["name"].(string), runningStatus())
	}
	return f
}

// TestSimulation has servers claim 1,000 pods per second on 100 nodes in simulated time: no pod is claimed twice,
// no claim waits while there are idle pods, and claims take no longer than promised.
func TestSimulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSimulatedCluster()
		var servers []*simServer
		for range simServers {
			servers = append(servers, &simServer{cluster: f.server(t, Config{Image: "own"})})
		}
		var all sync.WaitGroup
		refill := func(s *simServer) {
			all.Go(func() {
				if err := s.refill(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range simIdle {
			refill(servers[i%simServers])
		}
		all.Wait()
		var mu sync.Mutex
		var took []time.Duration
		has, late := map[string]int{}, 0
		for i := range 2 * simClaims {
			if i == simClaims { // once all are idle again
				all.Wait()
			}
			time.Sleep(time.Second / simRate)
			s := servers[i%simServers]
			all.Go(func() {
				begun := time.Now()
				id, err := s.obtain(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if id == "" {
					late++
					return
				}
				took = append(took, time.Since(begun))
				has[id]++
				refill(s)
			})
		}
		all.Wait()
		for id, n := range has {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
		slices.SortFunc(took, cmp.Compare)
		at := func(part float64) time.Duration { return took[int(part*float64(len(took)-1))] }
		t.Logf("%d claims, %d without an idle pod; 50%% in %v, 99%% in %v, all in %v", len(took), late, at(0.5), at(0.99), at(1))
		if late > 0 || at(0.99) > 100*time.Millisecond {
			t.Errorf("%d of %d found no idle pod; 99%% in %v", late, simClaims, at(0.99))
		}
	})
}
