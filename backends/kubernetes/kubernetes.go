// Package kubernetes makes containers as pods of a cluster: it is package container's engine that has no machine of
// its own. A sandbox is one pod, whose containers package inside describes.
//
// Library: k8s.io/client-go implements kubeconfig files, credentials and exec streams. Of the API's types we decode
// only the fields that we use: the generated types cost milliseconds of every start of this program.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Config locates a cluster and configures its pods.
type Config struct {
	Kubeconfig string // file; "" searches KUBECONFIG, the home directory, and the account of our own pod
	Context    string // in the file; "" is its current context
	Namespace  string // "" is the context's
	// Image contains this program, of this version, as /.sandboxmcp/init.
	Image         string
	RuntimeClass  string            // "" is the cluster's default
	NodeSelector  map[string]string // labels of the nodes that may run sandboxes
	PriorityClass string            // "" is the cluster's default
	Account       string            // of the pods, which get no token for it; "" is the namespace's default
	NeverPull     bool              // images are not pulled: the nodes have them
	// Overcommit divides the CPU time that pods request: with 4, four sandboxes share the CPU that each may use; 0
	// is 1.
	Overcommit int
	// Settle bounds the time until a network policy is in force for a new pod.
	Settle time.Duration
	// Lease is the silence after which other servers consider this one dead; 0 is 30 s.
	Lease time.Duration
}

// Name is the value of --backend.
const Name = "kubernetes"

// New returns the engine. It connects at the first call.
func New(c Config) container.Engine {
	return &kubernetes{config: c, sem: make(chan struct{}, 1)}
}

// PromisedLayers are the layers of every sandbox: those of all engines except the cgroup view, which nodes with
// cgroup v1 share.
func PromisedLayers() []string {
	return slices.DeleteFunc(slices.Clone(backends.EngineLayers), func(l string) bool { return l == backends.LayerCgroupNS })
}

// Backend is a [container.Backend] with the promises of pods.
type Backend struct{ *container.Backend }

// Promises implements [backends.Backend].
func (b Backend) Promises(profile string) []string {
	if b.Backend.Promises(profile) == nil {
		return nil
	}
	return PromisedLayers()
}

// kubernetes implements [container.Engine] through the cluster that Info connects.
type kubernetes struct {
	config Config
	sem    chan struct{} // semaphore: held while connecting
	*cluster
}

// cluster is a connection to a cluster.
type cluster struct {
	*client
	config  Config
	info    container.Info
	minor   int      // of the cluster's version, 1.minor
	targets []string // of probes, in the format of package inside
	lease   *lease
	pods    *watcher

	mu    sync.Mutex
	notes map[string]podNote // by pod
}

// podNote is this server's knowledge of a pod beside the pod's state.
type podNote struct {
	stream  io.Closer // the connection
	version string    // in which List found the pod
	offered bool      // idle, and another server may claim it
}

// updateNote returns the note of a pod, after calling change with it if that is not nil.
func (c *cluster) updateNote(pod string, change func(*podNote)) podNote {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.notes[pod]
	if change == nil {
		return n
	}
	if change(&n); n == (podNote{}) {
		delete(c.notes, pod)
	} else {
		c.notes[pod] = n
	}
	return n
}

func (e *kubernetes) Name() string { return Name }

// Info connects once: it acquires a lease, creates the network policy, and watches our pods.
func (e *kubernetes) Info(ctx context.Context) (container.Info, error) {
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		return container.Info{}, ctx.Err()
	}
	if e.cluster != nil {
		return e.info, nil
	}
	if e.config.Image == "" {
		return container.Info{}, backends.Refuse("no image with sandboxmcp is configured for the cluster's pods",
			"set kubernetes.image; sandboxmcp setup kubernetes shows how to build one")
	}
	api, err := newClient(e.config)
	if err != nil {
		return container.Info{}, err
	}
	c, err := joinCluster(ctx, api, e.config)
	if err != nil {
		return container.Info{}, err
	}
	e.cluster = c
	return c.info, nil
}

// joinCluster registers this server with a cluster.
func joinCluster(ctx context.Context, api *client, config Config) (_ *cluster, err error) {
	c := &cluster{client: api, config: config, notes: map[string]podNote{}}
	if c.info, err = c.describe(ctx); err != nil {
		return nil, err
	}
	if err := c.denyAll(ctx); err != nil {
		return nil, err
	}
	c.targets = c.probeTargets(ctx)
	if c.lease, err = c.acquire(ctx); err != nil {
		return nil, err
	}
	c.pods = c.watch(labelLease+"="+c.lease.name, c.hangUp)
	return c, nil
}

// remedies are those for layers that depend on the nodes.
var remedies = map[string]remedy.Text{
	backends.LayerUser: {"use nodes that give pods user namespaces (a kernel of 6.3, containerd 2, Kubernetes 1.33 or newer), name them in ",
		remedy.Setting.With("kubernetes.node_selector"),
		", and let the server list nodes: ", remedy.Command.With("sandboxmcp setup kubernetes"), " prints that right"},
	backends.LayerNet: {"use a network that enforces policies, such as Calico's or Cilium's, and leave these pods to the policy ",
		policyName, " alone, which it must have in force within seconds of a pod's start"},
	backends.LayerCgroupNS: {"use nodes with cgroup v2"},
	backends.LayerCgroup: {"run without it: nothing limits the processes of one pod, so a watcher inside does; the kernel limits " +
		"memory and CPU"},
	backends.LayerLandlock: {"use nodes with a kernel of 5.13 or newer and lsm=landlock,... on its command line"},
}

// describe queries the cluster's version and its nodes' capabilities.
func (c *cluster) describe(ctx context.Context) (container.Info, error) {
	var version struct{ GitVersion, Minor string }
	if err := c.get(ctx, "/version", nil, &version); err != nil {
		return container.Info{}, fmt.Errorf("ask the API server at %s for its version: %w", c.base.Host, err)
	}
	c.minor, _ = strconv.Atoi(strings.TrimRight(version.Minor, "+"))
	i := container.Info{Version: version.GitVersion, Address: c.base.Host + ", namespace " + c.namespace, HasInit: true,
		Runtime: c.config.RuntimeClass, Remedies: remedies}
	var nodes struct{ Items []node }
	switch err := c.get(ctx, "/api/v1/nodes", query("labelSelector", labelSelector(c.config.NodeSelector)), &nodes); {
	case isStatus(err, 403): // the namespace's administrator need not be the cluster's
		return i, nil
	case err != nil:
		return i, fmt.Errorf("list nodes: %w", err)
	case len(nodes.Items) == 0:
		return i, backends.Refuse("the cluster has no node for sandboxes", "check kubernetes.node_selector")
	}
	i.UserNS, i.Users = true, 1<<16
	for _, n := range nodes.Items {
		i.UserNS = i.UserNS && n.mapsUsers(c.config.RuntimeClass)
	}
	if !i.UserNS {
		i.Users = 0
	}
	return i, nil
}

// Close ends the lease; after it, no server looks for our pods.
func (e *kubernetes) Close() error {
	e.sem <- struct{}{}
	defer func() { <-e.sem }()
	if e.cluster == nil {
		return nil
	}
	err := e.lease.close()
	e.pods.close()
	e.http.CloseIdleConnections()
	return err
}

// Image implements [container.Engine], as do the following methods. An API server knows no images.
func (c *cluster) Image(_ context.Context, reference string) (container.Image, error) {
	return container.Image{ID: reference, Names: []string{reference}}, nil
}

func (c *cluster) Images(context.Context, string) ([]container.Image, error) { return nil, nil }

var errNodes = errors.New("a cluster's images come from its registry: push them there")

func (c *cluster) Pull(context.Context, string, func(string)) error { return errNodes }

func (c *cluster) Build(context.Context, string, io.Reader, map[string]string, func(string)) error {
	return errNodes
}

// Seed implements [container.Engine], and is never called: see [container.Info.HasInit].
func (c *cluster) Seed(context.Context, string, map[string]string, io.Reader, string) error {
	return errors.ErrUnsupported
}

// Update is never called: a pod's processes have no limit of their own.
func (c *cluster) Update(context.Context, string, container.Resources) error {
	return errors.ErrUnsupported
}
