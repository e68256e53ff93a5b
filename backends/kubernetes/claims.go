package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Where agents.x-k8s.io is installed (github.com/kubernetes-sigs/agent-sandbox), idle pods are its to make: for each kind of
// pods, servers share a SandboxTemplate and a SandboxWarmPool, and have each pod by a SandboxClaim, which is one sandbox's and is
// removed with it. What a claim gives is labelled as ours, and connected like any pod.
//
// A template names the user of all its pods. Where pods have user namespaces, or kernels of their own, they share nothing by
// that; elsewhere the kernel counts their processes together (RLIMIT_NPROC), and programs can't start any.
const (
	agentGroup   = "extensions.agents.x-k8s.io"
	agentAPI     = agentGroup + "/v1beta1"
	labelClaimed = "sandboxmcp.claim" // on pods: the name of their claim
	maxKinds     = 4                  // warm pools that one server asks for at a time
)

// How Config.AgentSandbox is written.
const (
	AgentAuto   = "auto"
	AgentAlways = "always"
	AgentNever  = "never"
)

// adoption is a SandboxClaim.
type adoption struct {
	Meta   meta `json:"metadata"`
	Status struct {
		Conditions []condition
		Sandbox    named
	}
}

type named struct {
	Name string `json:"name"`
}

// useClaims decides whether idle pods are had by claims, and returns a note for people: "" where that was not to be expected.
func (c *cluster) useClaims(ctx context.Context) (use bool, note string, err error) {
	always := c.config.AgentSandbox == AgentAlways
	if !always && c.config.AgentSandbox != AgentAuto {
		return false, "", nil
	}
	var group struct {
		Versions []struct{ GroupVersion string }
	}
	err = c.get(ctx, "/apis/"+agentGroup, nil, &group)
	absent := isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusForbidden)
	if err != nil && !absent {
		return false, "", fmt.Errorf("look for agents.x-k8s.io: %w", err)
	}
	why := ""
	switch {
	case absent && !always:
		return false, "", nil
	case absent:
		why = "it is not installed"
	case !slices.ContainsFunc(group.Versions, func(v struct{ GroupVersion string }) bool { return v.GroupVersion == agentAPI }):
		why = "it has no " + agentAPI
	case !c.info.UserNS && !(always && c.config.RuntimeClass != ""): // or the kernel would count all pods' processes against the limit of each
		why = "nodes map no users, and the pods of a template have one"
	default:
		why = strings.Join(c.missingRights(ctx, agentRights), ", ")
	}
	switch {
	case why == "":
		return true, "idle pods by claims of agents.x-k8s.io", nil
	case always:
		return false, "", backends.Refuse("agents.x-k8s.io can't be used: "+why, "set ", remedy.Setting.With("kubernetes.agent_sandbox"), " to auto, or see ",
			remedy.Command.With("sandboxmcp setup kubernetes"))
	}
	return false, "agents.x-k8s.io is not used: " + why, nil
}

// warmPool makes the warm pool for containers like of, or makes this server one of its owners: the cluster removes it with the
// last one's lease.
func (c *cluster) warmPool(ctx context.Context, of container.Container) (name string, err error) {
	name = warmPoolName(c.kind(of))
	of.Idle, of.Labels = true, nil
	spec, err := c.spec(of)
	if err != nil {
		return "", err
	}
	made := func(kind string, spec any) object {
		return object{"apiVersion": agentAPI, "kind": kind, "spec": spec,
			"metadata": meta{Name: name, Labels: map[string]string{labelRole: roleSandbox}, Owners: []owner{c.lease.owner()}}}
	}
	labels := c.metadata(of).Labels
	delete(labels, labelLease) // which comes with a claim
	template := object{"podTemplate": object{"metadata": object{"labels": labels}, "spec": spec},
		"service": false, "networkPolicyManagement": "Unmanaged"} // ours holds for all sandboxes
	pool := object{"replicas": c.config.Ahead, "sandboxTemplateRef": named{name}}
	if err := c.coOwn(ctx, "sandboxtemplates", name, made("SandboxTemplate", template)); err != nil {
		return "", err
	}
	if err := c.coOwn(ctx, "sandboxwarmpools", name, made("SandboxWarmPool", pool)); err != nil {
		return "", err
	}
	c.mu.Lock()
	c.kinds = append(slices.DeleteFunc(c.kinds, func(k string) bool { return k == name }), name)
	last := ""
	if len(c.kinds) > maxKinds {
		last, c.kinds = c.kinds[0], c.kinds[1:]
	}
	c.mu.Unlock()
	if last != "" {
		c.disown(ctx, "sandboxwarmpools", last)
		c.disown(ctx, "sandboxtemplates", last)
	}
	return name, nil
}

func warmPoolName(kind string) string { return "sandboxmcp-" + kind }

// coOwn makes an object that servers share, or adds this one to its owners.
func (c *cluster) coOwn(ctx context.Context, resource, name string, object any) error {
	for {
		err := c.do(ctx, http.MethodPost, c.in(agentAPI, resource, ""), nil, object, nil)
		if isStatus(err, http.StatusConflict) {
			err = c.setOwner(ctx, resource, name, true)
		}
		again := isStatus(err, http.StatusConflict) || isStatus(err, http.StatusNotFound) // it changed, or is being removed
		if !again || !engine.Pause(ctx, 20*time.Millisecond) {
			return wrap(err, "make "+resource+" "+name)
		}
	}
}

// disown removes this server from the owners of an object, and the object with its last one. A lease that ends does as much.
func (c *cluster) disown(ctx context.Context, resource, name string) {
	for {
		err := c.setOwner(ctx, resource, name, false)
		if !isStatus(err, http.StatusConflict) || !engine.Pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// setOwner makes this server one of the owners of an object, in the version in which it is, or no longer one of them; with its
// last owner, the object is removed.
func (c *cluster) setOwner(ctx context.Context, resource, name string, owns bool) error {
	var seen struct{ Metadata meta }
	path := c.in(agentAPI, resource, name)
	if err := c.get(ctx, path, nil, &seen); err != nil {
		return err
	}
	now := seen.Metadata
	if now.Deleted != "" {
		return &statusError{Code: http.StatusConflict, Reason: "Conflict", Message: "it is being removed"}
	}
	owners := slices.DeleteFunc(slices.Clone(now.Owners), func(o owner) bool { return o == c.lease.owner() })
	switch {
	case owns == (len(owners) < len(now.Owners)):
		return nil
	case owns:
		owners = append(owners, c.lease.owner())
	case len(owners) == 0:
		return c.do(ctx, http.MethodDelete, path, nil, object{"preconditions": object{"resourceVersion": now.ResourceVersion}}, nil)
	}
	return c.do(ctx, http.MethodPatch, path, nil, object{"metadata": object{"resourceVersion": now.ResourceVersion, "ownerReferences": owners}}, nil)
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// adopt has a pod of a warm pool by a claim with the container's name, and returns the pod's. After an error, the claim may be
// there: it is known by its own name as well as by the pod's.
func (c *cluster) adopt(ctx context.Context, of container.Container, pool string) (id string, err error) {
	o := adoption{}
	made := object{"apiVersion": agentAPI, "kind": "SandboxClaim",
		"metadata": meta{Name: of.Name, Labels: map[string]string{labelRole: roleSandbox, labelLease: c.lease.name}, Owners: []owner{c.lease.owner()}},
		"spec": object{"warmPoolRef": named{pool},
			"lifecycle": object{"shutdownTime": time.Now().Add(longestPod * time.Second).UTC().Truncate(time.Second), "shutdownPolicy": "Delete"}}}
	adopted := func(n *note) { n.adoption = of.Name }
	c.noted(of.Name, adopted)
	if err = c.do(ctx, http.MethodPost, c.in(agentAPI, "sandboxclaims", ""), nil, made, &o); err == nil {
		id, err = c.bound(ctx, o)
	}
	if err != nil {
		return "", wrap(err, "claim a pod of "+pool)
	}
	c.noted(id, adopted)
	c.pods.track(id)
	return id, wrap(c.mark(ctx, id, of), "claim pod "+id)
}

// bound waits until a claim has a pod, and returns its name.
func (c *cluster) bound(ctx context.Context, o adoption) (string, error) {
	for o.Status.Sandbox.Name == "" {
		gone := false
		err := events(ctx, c.client, c.in(agentAPI, "sandboxclaims", ""), url.Values{
			"fieldSelector": {"metadata.name=" + o.Meta.Name}, "resourceVersion": {o.Meta.ResourceVersion}}, func(kind string, now adoption) bool {
			gone, o = kind == deleted, now
			return !gone && o.Status.Sandbox.Name == ""
		})
		switch {
		case gone:
			return "", errors.New("somebody removed the claim")
		case ctx.Err() != nil:
			return "", fmt.Errorf("%w%s", context.Cause(ctx), o.reason())
		case o.Status.Sandbox.Name != "" || !engine.Pause(ctx, 50*time.Millisecond):
			continue
		}
		if failed := c.get(ctx, c.in(agentAPI, "sandboxclaims", o.Meta.Name), nil, &o); isStatus(failed, http.StatusNotFound) {
			return "", cmp.Or(err, failed)
		}
	}
	return o.Status.Sandbox.Name, nil
}

// reason says for what a claim waits, if it does.
func (o adoption) reason() string {
	for _, d := range o.Status.Conditions {
		if d.Type == "Ready" && d.Status != "True" {
			return ": " + engine.Plain(d.Reason+" "+d.Message)
		}
	}
	return ""
}

// mark labels a pod that a claim has given as this server's, which may still have to be made. It is one of the kind that was
// asked for, or an error.
func (c *cluster) mark(ctx context.Context, id string, of container.Container) error {
	mine := c.metadata(of)
	mine.Labels[labelClaimed] = of.Name
	delete(mine.Labels, labelKind) // is the template's to give
	patch := object{"metadata": object{"labels": mine.Labels, "annotations": mine.Annotations}}
	for {
		var now pod
		err := c.do(ctx, http.MethodPatch, c.in("v1", "pods", id), nil, patch, &now)
		switch {
		case err == nil && now.Meta.Labels[labelKind] != c.kind(of):
			return errors.New("the warm pool's template is not the one that was made for it")
		case err == nil:
			c.pods.put(now, false)
			return nil
		case !isStatus(err, http.StatusNotFound) || !engine.Pause(ctx, 20*time.Millisecond):
			return err
		}
	}
}

// takeClaimed has a pod of a warm pool that this server has asked for, if one is ready there.
func (c *cluster) takeClaimed(ctx context.Context, of container.Container) (id string, err error) {
	name := warmPoolName(c.kind(of))
	c.mu.Lock()
	known := slices.Contains(c.kinds, name)
	c.mu.Unlock()
	var pool struct{ Status struct{ ReadyReplicas int } }
	if !known || c.get(ctx, c.in(agentAPI, "sandboxwarmpools", name), nil, &pool) != nil || pool.Status.ReadyReplicas == 0 {
		return "", nil
	}
	of.Idle = false
	if id, err = c.adopt(ctx, of, name); err != nil {
		c.pods.forget(id)
		c.lease.owe(of.Name)
		return "", err
	}
	return id, nil
}

// knowClaimed remembers the claim that a pod of another server, or of an earlier one, says it was had by.
func (c *cluster) knowClaimed(p pod) {
	if by := p.Meta.Labels[labelClaimed]; by != "" {
		c.noted(p.Meta.Name, func(n *note) { n.adoption = by })
	}
}

// release removes the claim of a pod, and with it the pod. Like all removals it reports by a [statusError] that the pod is not
// there.
func (c *cluster) release(ctx context.Context, pod, by string) error {
	err := c.do(ctx, http.MethodDelete, c.in(agentAPI, "sandboxclaims", by), nil, nil, nil)
	if err != nil && !isStatus(err, http.StatusNotFound) {
		return err
	}
	if err = c.get(ctx, c.in("v1", "pods", pod), nil, nil); isStatus(err, http.StatusNotFound) {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.notes, func(_ string, n note) bool { return n.adoption == by })
	}
	return err
}
