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

// Idle pods are offered to all servers of the namespace, by a label that says of which kind they are. A server claims one by
// a patch that removes the label and names its own lease, and holds only for the version of the pod that it has seen: of two
// servers, the API server tells one that there is a conflict. A server's own are connected ahead; from another's it has to
// wait until that server, which sees its pod go, has hung up.

// kind returns what idle pods have in common that can take each other's place.
func (c *cluster) kind(of container.Container) string {
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

// offer notes that a pod is offered, and its connection. Start does so for all, of which only those count that were made idle.
func (c *cluster) offer(id string, s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, is := c.offered[id]; is || s == nil {
		c.offered[id] = s
	}
}

// isOffered reports whether a pod is offered as far as we know.
func (c *cluster) isOffered(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, is := c.offered[id]
	return is
}

// keep ends an offer.
func (c *cluster) keep(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.offered, id)
}

// hangUp ends the connection with an offered pod that is gone, or another server's.
func (c *cluster) hangUp(id string) {
	c.mu.Lock()
	s := c.offered[id]
	c.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// Claim implements [container.Shared].
func (c *cluster) Claim(ctx context.Context, id string, labels map[string]string) error {
	p, gone := c.pods.last(id)
	for stale := p.Meta.UID == ""; ; stale = true {
		if stale && !gone { // the kubelet may have written its state, or the cluster have made it without an answer
			err := c.get(ctx, c.in("v1", "pods", id), nil, &p)
			if gone = isStatus(err, http.StatusNotFound); !gone && err != nil {
				return fmt.Errorf("claim pod %s: %w", id, err)
			}
		}
		if gone || p.Meta.Labels[labelIdle] == "" || p.Meta.Labels[labelLease] != c.lease.name {
			return container.ErrTaken
		}
		now, err := c.claim(ctx, p, meta{Labels: labels})
		switch {
		case err == nil:
			c.keep(id)
			c.pods.put(now, false)
			return nil
		case !isStatus(err, http.StatusConflict) && !isStatus(err, http.StatusNotFound):
			return fmt.Errorf("claim pod %s: %w", id, err)
		}
	}
}

// claim makes a pod ours, if it is as it was seen, and adds labels and annotations.
func (c *cluster) claim(ctx context.Context, seen pod, more meta) (now pod, err error) {
	set := map[string]any{labelIdle: nil, labelLease: c.lease.name}
	for key, value := range more.Labels {
		set[key] = value
	}
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": seen.Meta.ResourceVersion, "labels": set,
		"annotations": more.Annotations, "ownerReferences": []owner{c.lease.owner()}}}
	err = c.do(ctx, http.MethodPatch, c.in("v1", "pods", seen.Meta.Name), nil, patch, &now)
	return now, err
}

// Take implements [container.Shared]. Servers that take at the same time begin at different pods.
func (c *cluster) Take(ctx context.Context, of container.Container) (string, error) {
	var list struct{ Items []pod }
	if err := c.get(ctx, c.in("v1", "pods", ""), query("labelSelector", labelIdle+"="+c.kind(of)+","+labelLease+"!="+c.lease.name), &list); err != nil {
		return "", fmt.Errorf("list idle pods: %w", err)
	}
	of.Idle = false
	mine, err := c.manifest(of)
	if err != nil {
		return "", err
	}
	for _, i := range rand.Perm(len(list.Items)) {
		p := list.Items[i]
		if ready, _ := running(p); !ready || p.Meta.Deleted != "" {
			continue
		}
		now, err := c.claim(ctx, p, mine.Meta)
		switch {
		case err == nil:
			c.pods.track(now.Meta.Name)
			c.pods.put(now, false)
			return now.Meta.Name, nil
		case !isStatus(err, http.StatusConflict) && !isStatus(err, http.StatusNotFound):
			return "", fmt.Errorf("claim pod %s: %w", p.Meta.Name, err)
		}
	}
	return "", nil
}

// withdraw ends the offer of an idle pod that is to be removed, and reports whether another server has it: then it is not
// ours to remove.
func (c *cluster) withdraw(ctx context.Context, id string) (taken bool, err error) {
	if !c.isOffered(id) {
		return false, nil
	}
	soon, cancel := context.WithTimeoutCause(ctx, outage, errors.New("the API server does not answer"))
	defer cancel()
	switch err := c.Claim(soon, id, nil); {
	case errors.Is(err, container.ErrTaken):
		c.keep(id)
		c.pods.forget(id)
		return true, nil
	case err != nil:
		return false, cmp.Or(context.Cause(soon), err)
	}
	return false, nil
}
