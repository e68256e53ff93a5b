package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// All servers of the namespace may claim idle pods, which have a label for being idle and one for their kind. A
// server claims one by a patch that removes the label and names the server's lease, and that applies only to the
// version of the pod that it has seen: of two servers, one gets a conflict from the API server. A server connects
// to its own idle pods in advance; for another's it has to wait until that server has noticed and closed its
// connection.

// idleKind returns a hash of the properties that interchangeable idle pods share.
func (c *cluster) idleKind(of container.Container) string {
	of.Name, of.User, of.Etc, of.Labels, of.Idle = "", "", nil, nil, false
	shared := c.config
	shared.Kubeconfig, shared.Context, shared.Lease = "", "", 0
	text, err := json.Marshal([]any{of, shared, c.info.UserNS})
	if err != nil { // plain values can always be encoded
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// hangUp closes the connection to an offered pod that is gone, or that another server has claimed.
func (c *cluster) hangUp(id string) {
	if n := c.updateNote(id, nil); n.stream != nil && n.offered {
		n.stream.Close()
	}
}

// Offer implements [container.Shared].
func (c *cluster) Offer(ctx context.Context, id string) error {
	c.updateNote(id, func(n *podNote) { n.offered = true })
	if err := c.labelOwn(ctx, id, object{labelIdle: "yes"}); err != nil {
		return fmt.Errorf("offer pod %s: %w", id, err)
	}
	return nil
}

// Reserve implements [container.Shared].
func (c *cluster) Reserve(ctx context.Context, id string, labels map[string]string) error {
	if err := c.labelOwn(ctx, id, claimedLabels(labels)); err != nil {
		return fmt.Errorf("claim pod %s: %w", id, err)
	}
	c.updateNote(id, func(n *podNote) { n.offered = false })
	return nil
}

// claimedLabels returns the labels of a pod that is no longer offered.
func claimedLabels(more map[string]string) object {
	labels := object{labelIdle: nil}
	for key, value := range more {
		labels[key] = value
	}
	return labels
}

// labelOwn sets labels of this server's pod in its current version. The error is container.ErrTaken if another
// server has claimed it.
func (c *cluster) labelOwn(ctx context.Context, id string, labels object) error {
	p, gone := c.pods.lastState(id)
	for stale := p.Meta.UID == ""; ; stale = true {
		if stale && !gone { // the kubelet may have written its status, or the cluster have made the pod without an answer
			err := c.get(ctx, c.pathOf("v1", "pods", id), nil, &p)
			if gone = isStatus(err, http.StatusNotFound); !gone && err != nil {
				return err
			}
		}
		if gone || p.Meta.Labels[labelLease] != c.lease.name {
			return container.ErrTaken
		}
		now, err := c.labelPod(ctx, p, labels, nil)
		switch {
		case err == nil:
			c.pods.store(now, false)
			return nil
		case !isStatus(err, http.StatusConflict) && !isStatus(err, http.StatusNotFound):
			return err
		}
	}
}

// labelPod claims a pod and sets labels, if the pod has not changed since seen.
func (c *cluster) labelPod(ctx context.Context, seen pod, labels object, annotations map[string]string) (now pod, err error) {
	labels[labelLease] = c.lease.name
	change := object{"resourceVersion": seen.Meta.ResourceVersion, "labels": labels, "annotations": annotations,
		"ownerReferences": []owner{c.lease.owner()}}
	err = c.call(ctx, http.MethodPatch, c.pathOf("v1", "pods", seen.Meta.Name), nil, object{"metadata": change}, &now)
	return now, err
}

// LeaseIdle implements [container.Shared]. Concurrent servers begin at different pods.
func (c *cluster) LeaseIdle(ctx context.Context, of container.Container) (string, error) {
	var list struct{ Items []pod }
	if err := c.get(ctx, c.pathOf("v1", "pods", ""), query("labelSelector", labelKind+"="+c.idleKind(of)+","+labelIdle+"=yes,"+labelLease+"!="+
		c.lease.name), &list); err != nil {
		return "", fmt.Errorf("list idle pods: %w", err)
	}
	of.Idle = false
	mine := c.metadata(of)
	for _, i := range rand.Perm(len(list.Items)) {
		p := list.Items[i]
		if ready, _ := checkRunning(p); !ready || p.Meta.Deleted != "" {
			continue
		}
		now, err := c.labelPod(ctx, p, claimedLabels(mine.Labels), mine.Annotations)
		switch {
		case err == nil:
			c.pods.track(now.Meta.Name)
			c.pods.store(now, false)
			return now.Meta.Name, nil
		case !isStatus(err, http.StatusConflict) && !isStatus(err, http.StatusNotFound):
			return "", fmt.Errorf("claim pod %s: %w", p.Meta.Name, err)
		}
	}
	return "", nil
}

// withdrawOffer withdraws the offer of an idle pod before its removal. taken reports that another server has
// claimed it: then it is not ours to remove.
func (c *cluster) withdrawOffer(ctx context.Context, id string) (taken bool, err error) {
	if !c.updateNote(id, nil).offered {
		return false, nil
	}
	soon, cancel := context.WithTimeoutCause(ctx, outage, errors.New("the API server does not answer"))
	defer cancel()
	switch err := c.Reserve(soon, id, nil); {
	case errors.Is(err, container.ErrTaken):
		c.updateNote(id, func(n *podNote) { n.offered = false })
		c.pods.forget(id)
		return true, nil
	case err != nil:
		return false, cmp.Or(context.Cause(soon), err)
	}
	return false, nil
}
