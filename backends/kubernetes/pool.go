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

// Idle pods are offered to all servers of the namespace, by a label, and another that says of which kind they are. A
// server claims one by a patch that removes the label and names its own lease, and holds only for the version of the
// pod that it has seen: of two servers, the API server tells one that there is a conflict. A server's own are connected
// ahead; for another's it has to wait until that server, which sees its pod go, has hung up.

// idleKind returns what idle pods have in common that can take each other's place.
func (c *cluster) idleKind(of container.Container) string {
	of.Name, of.User, of.Etc, of.Labels, of.Idle = "", "", nil, nil, false
	shared := c.config
	shared.Kubeconfig, shared.Context, shared.Lease = "", "", 0
	text, err := json.Marshal([]any{of, shared, c.info.UserNS})
	if err != nil { // plain values can be written
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// hangUp ends the connection with an offered pod that is gone, or another server's.
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

// claimedLabels are the labels of a pod that is no longer offered.
func claimedLabels(more map[string]string) object {
	labels := object{labelIdle: nil}
	for key, value := range more {
		labels[key] = value
	}
	return labels
}

// labelOwn sets labels of a pod that is this server's, in the version in which it is: container.ErrTaken if it is another's
// by then.
func (c *cluster) labelOwn(ctx context.Context, id string, labels object) error {
	p, gone := c.pods.last(id)
	for stale := p.Meta.UID == ""; ; stale = true {
		if stale && !gone { // the kubelet may have written its state, or the cluster have made it without an answer
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

// labelPod makes a pod ours and sets labels, if it is as it was seen.
func (c *cluster) labelPod(ctx context.Context, seen pod, labels object, annotations map[string]string) (now pod, err error) {
	labels[labelLease] = c.lease.name
	change := object{"resourceVersion": seen.Meta.ResourceVersion, "labels": labels, "annotations": annotations,
		"ownerReferences": []owner{c.lease.owner()}}
	err = c.call(ctx, http.MethodPatch, c.pathOf("v1", "pods", seen.Meta.Name), nil, object{"metadata": change}, &now)
	return now, err
}

// LeaseIdle implements [container.Shared]. Servers that take at the same time begin at different pods.
func (c *cluster) LeaseIdle(ctx context.Context, of container.Container) (string, error) {
	var list struct{ Items []pod }
	if err := c.get(ctx, c.pathOf("v1", "pods", ""), query("labelSelector", labelKind+"="+c.idleKind(of)+","+labelIdle+"=yes,"+labelLease+"!="+c.lease.name), &list); err != nil {
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

// withdrawOffer ends the offer of an idle pod that is to be removed, and reports whether another server has it: then it is
// not ours to remove.
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
