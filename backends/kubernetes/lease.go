package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

const (
	leaseGroup   = "coordination.k8s.io/v1"
	defaultLease = 30 * time.Second
	microTime    = "2006-01-02T15:04:05.000000Z07:00"
	removed      = "removed" // holder of a lease whose pods are being removed
)

// lease is an API object that this server renews to prove to the others that it is alive. Its pods name it and
// depend on it, so that the cluster removes those that no server removes.
type lease struct {
	client   *cluster
	name     string
	duration time.Duration
	cancel   context.CancelFunc
	done     chan struct{}

	mu   sync.Mutex
	uid  string   // of the object
	owed []string // pods whose removal failed
}

// addOwed schedules a pod for later removal.
func (l *lease) addOwed(pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed = append(l.owed, pod)
}

// removeOwed retries the failed removals.
func (l *lease) removeOwed(ctx context.Context) {
	l.mu.Lock()
	owed := l.owed
	l.owed = nil
	l.mu.Unlock()
	for _, pod := range owed {
		taken, err := l.client.withdrawOffer(ctx, pod)
		if err == nil && !taken {
			err = l.client.delete(ctx, pod, "")
		}
		if !taken && !isStatus(err, http.StatusNotFound) { // it still exists
			l.addOwed(pod)
		}
	}
}

// acquire creates a lease, and begins to renew it and to look for leases that nobody renews.
func (c *cluster) acquire(ctx context.Context) (*lease, error) {
	l := &lease{client: c, name: "sandboxmcp-" + strings.ToLower(ulid.Make().String()), duration: cmp.Or(c.config.Lease, defaultLease),
		done: make(chan struct{})}
	if err := l.create(ctx); err != nil {
		return nil, fmt.Errorf("acquire a lease in namespace %s: %w", c.namespace, err)
	}
	var renewing context.Context
	renewing, l.cancel = context.WithCancel(context.Background())
	go l.renew(renewing)
	return l, nil
}

// create creates the lease object.
func (l *lease) create(ctx context.Context) error {
	sign := object{"apiVersion": leaseGroup, "kind": "Lease", "metadata": meta{Name: l.name, Labels: map[string]string{labelRole: roleServer}},
		"spec": object{"holderIdentity": holderName(), "leaseDurationSeconds": max(1, int(l.duration/time.Second)), "renewTime": now()}}
	var o leaseObject
	if err := l.client.call(ctx, http.MethodPost, l.client.pathOf(leaseGroup, "leases", ""), nil, sign, &o); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uid = o.Meta.UID
	return nil
}

// holderName returns this machine's name, for people.
func holderName() string {
	host, _ := os.Hostname()
	return cmp.Or(host, "server")
}

func now() string { return time.Now().UTC().Format(microTime) }

// owner returns the reference that makes a pod depend on the lease.
func (l *lease) owner() owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return owner{leaseGroup, "Lease", l.name, l.uid}
}

// renew renews the lease, and removes the pods of dead servers. A server that was silent for too long, on a machine
// that slept, has lost its pods and its lease, and creates a new lease. A server that can't renew its own lease
// removes nothing: the others may be alive, and as cut off as it is.
func (l *lease) renew(ctx context.Context) {
	defer close(l.done)
	o := observed{}
	var err error // of the last renewal
	for {
		soon, cancel := context.WithTimeout(ctx, l.duration/3)
		if err == nil {
			l.removeOwed(soon)
			l.sweep(soon, &o)
		}
		cancel()
		if !engine.Pause(ctx, l.duration/4) {
			return
		}
		soon, cancel = context.WithTimeout(ctx, l.duration/4)
		patch := object{"spec": object{"holderIdentity": holderName(), "renewTime": now()}}
		err = l.client.call(soon, http.MethodPatch, l.client.pathOf(leaseGroup, "leases", l.name), nil, patch, nil)
		if isStatus(err, http.StatusNotFound) {
			err = l.create(soon) // if it fails, the next round tries again
		}
		cancel()
	}
}

// close deletes the lease. Its pods are gone.
func (l *lease) close() error {
	l.cancel()
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := l.client.call(ctx, http.MethodDelete, l.client.pathOf(leaseGroup, "leases", l.name), nil, nil, nil)
	if err != nil && !isStatus(err, http.StatusNotFound) {
		return fmt.Errorf("release lease %s: %w", l.name, err)
	}
	return nil
}

// seen is a state of another server's lease, and the time since when we see it unchanged. The clocks of two
// machines need not agree.
type seen struct {
	version string
	since   time.Time
}

// observed is a server's record of the others' leases since it could read them without interruption.
type observed struct {
	others map[string]seen
	last   time.Time // when the leases were last read
}

// sweep removes the pods of servers that have not renewed their lease for its whole duration, if this server could
// read it all that time. After an interruption (an outage, a machine that slept) it counts anew: the others could
// renew as little as this one could read.
func (l *lease) sweep(ctx context.Context, o *observed) {
	var list struct{ Items []leaseObject }
	err := l.client.get(ctx, l.client.pathOf(leaseGroup, "leases", ""), query("labelSelector", labelRole+"="+roleServer), &list)
	if err != nil {
		return
	}
	before := o.others
	if time.Since(o.last) > l.duration*2/3 { // more than one reading was missed
		before = nil
	}
	o.others, o.last = map[string]seen{}, time.Now()
	for _, other := range list.Items {
		name := other.Meta.Name
		if name == l.name {
			continue
		}
		s := before[name]
		if s.version != other.Meta.ResourceVersion {
			s = seen{other.Meta.ResourceVersion, o.last}
		}
		o.others[name] = s
		if o.last.Sub(s.since) > time.Duration(other.Spec.Seconds)*time.Second {
			l.reap(ctx, other)
		}
	}
}

// reap takes over a dead server's lease, which fails if that was renewed meanwhile, and removes its pods.
func (l *lease) reap(ctx context.Context, dead leaseObject) {
	if dead.Spec.Holder != removed {
		takeover := object{"metadata": object{"resourceVersion": dead.Meta.ResourceVersion}, "spec": object{"holderIdentity": removed}}
		if l.client.call(ctx, http.MethodPatch, l.client.pathOf(leaseGroup, "leases", dead.Meta.Name), nil, takeover, nil) != nil {
			return
		}
	}
	var left struct{ Items []pod }
	if l.client.get(ctx, l.client.pathOf("v1", "pods", ""), query("labelSelector", labelLease+"="+dead.Meta.Name), &left) != nil {
		return
	}
	for _, p := range left.Items {
		err := l.client.delete(ctx, p.Meta.Name, p.Meta.ResourceVersion) // another server may have claimed an idle pod by now
		if err != nil && !isStatus(err, http.StatusNotFound) && !isStatus(err, http.StatusConflict) {
			return
		}
	}
	if len(left.Items) == 0 { // else a later round finds that they are gone
		_ = l.client.call(ctx, http.MethodDelete, l.client.pathOf(leaseGroup, "leases", dead.Meta.Name), nil, nil, nil)
	}
}
