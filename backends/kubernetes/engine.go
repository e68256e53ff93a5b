package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Create implements [container.Engine], as do the following methods. A pod starts by itself.
func (c *cluster) Create(ctx context.Context, of container.Container) (string, error) {
	if len(of.GPUs) > 0 {
		return "", backends.Refuse("pods can't get graphics processors", "use ", remedy.Backend.With("docker"), " or ",
			remedy.Backend.With("podman"))
	}
	spec, err := c.spec(of)
	if err != nil {
		return "", err
	}
	var p pod
	c.pods.track(of.Name)
	err = c.call(ctx, http.MethodPost, c.pathOf("v1", "pods", ""), nil, object{"apiVersion": "v1", "kind": "Pod", "metadata": c.metadata(of),
		"spec": spec}, &p)
	if err == nil {
		c.pods.store(p, false)
		return of.Name, nil
	}
	if failed, is := errors.AsType[*statusError](err); is && failed.Code == http.StatusForbidden {
		err := backends.Refuse("create pod "+of.Name+": "+engine.OneLine(failed.Message), remedy.Command.With("sandboxmcp setup kubernetes"),
			" prints the rights and the quota")
		if strings.Contains(failed.Message, "exceeded quota") {
			return "", fmt.Errorf("%w: %w", container.ErrFull, err)
		}
		return "", err
	}
	return "", fmt.Errorf("create pod %s: %w", of.Name, err)
}

// hopeless are the waiting reasons of a container that only a person can fix.
var hopeless = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
	"CreateContainerError", "RunContainerError"}

// Attach waits until the pod is running, and connects to its init.
func (c *cluster) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	var failed error
	p, gone, err := c.pods.await(ctx, id, func(p pod) (ready bool) {
		ready, failed = checkRunning(p)
		return ready || failed != nil
	})
	switch {
	case gone:
		return nil, fmt.Errorf("start pod %s: somebody removed it", id)
	case err != nil:
		return nil, fmt.Errorf("start pod %s: %w%s", id, err, waitReason(p))
	case failed != nil:
		return nil, fmt.Errorf("start pod %s: %w%s", id, failed, c.log(id))
	}
	s, err := c.attach(ctx, id, stderr)
	if err != nil {
		return nil, fmt.Errorf("execute in pod %s: %w", id, err)
	}
	c.updateNote(id, func(n *podNote) { n.stream = s })
	return s, nil
}

// Start does nothing: a pod starts by itself.
func (c *cluster) Start(context.Context, string) error { return nil }

// checkRunning reports whether the pod's long-lived containers are running, or returns why they never will.
func checkRunning(p pod) (bool, error) {
	for _, s := range slices.Concat(p.Status.InitContainers, p.Status.Containers) {
		switch w, t := s.State.Waiting, s.State.Terminated; {
		case w != nil && slices.Contains(hopeless, w.Reason):
			return false, backends.Refuse(fmt.Sprintf("container %s can't start: %s: %s", s.Name, w.Reason, engine.OneLine(w.Message)),
				"check the images of the settings images and kubernetes.image")
		case t != nil && (s.Name != initContainer || t.ExitCode != 0):
			return false, fmt.Errorf("container %s ended with code %d: %s", s.Name, t.ExitCode, engine.OneLine(t.Reason+" "+t.Message))
		}
	}
	if p.Status.Phase == "Failed" {
		return false, fmt.Errorf("it failed: %s", engine.OneLine(p.Status.Reason+" "+p.Status.Message))
	}
	return p.Status.container(relayName).State.Running != nil && p.Status.container(programName).State.Running != nil, nil
}

// waitReason returns the cluster's reason why a pod is not running, if there is one.
func waitReason(p pod) string {
	for _, d := range p.Status.Conditions {
		if d.Type == "PodScheduled" && d.Status == "False" {
			return ": " + engine.OneLine(d.Message)
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainers, p.Status.Containers) {
		if w := s.State.Waiting; w != nil {
			return fmt.Sprintf(": container %s waits: %s %s", s.Name, w.Reason, engine.OneLine(w.Message))
		}
	}
	return ""
}

// log returns the last lines of the containers that wrote any.
func (c *cluster) log(id string) (all string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, name := range []string{initContainer, relayName, programName} {
		params := query("container", name)
		params.Set("tailLines", "3")
		r, err := c.request(ctx, http.MethodGet, c.pathOf("v1", "pods", id)+"/log", params, nil, "")
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(r, 4<<10))
		r.Close()
		if t := engine.OneLine(string(text)); t != "" {
			all += fmt.Sprintf("; %s wrote: %s", name, t)
		}
	}
	return all
}

// Place implements [container.Placed].
func (c *cluster) Place(id string) string {
	p, _ := c.pods.lastState(id)
	image := ""
	for _, of := range p.Spec.Containers {
		if of.Name == programName {
			image = of.Image
		}
	}
	_, digest, found := strings.Cut(p.Status.container(programName).ImageID, "@")
	if !found {
		digest = p.Status.container(programName).ImageID
	}
	name, _, _ := strings.Cut(image, "@")
	return fmt.Sprintf("%s@%s, pod %s/%s on node %s", name, digest, c.namespace, id, p.Spec.NodeName)
}

// Wait implements [container.Engine], as do the following methods.
func (c *cluster) Wait(ctx context.Context, id string) (container.Exit, error) {
	var ended *stateReason
	p, gone, err := c.pods.await(ctx, id, func(p pod) bool {
		ended = p.Status.container(programName).State.Terminated
		return ended != nil || p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded"
	})
	switch {
	case err != nil:
		return container.Exit{}, err
	case ended != nil:
		e := container.Exit{Code: ended.ExitCode, OOM: ended.Reason == "OOMKilled"}
		if p.Status.Reason != "" || ended.ExitCode != 0 && ended.Reason != "Error" && !e.OOM {
			e.Why = engine.OneLine(strings.TrimSpace(p.Status.Reason + " " + p.Status.Message + " " + ended.Reason + " " + ended.Message))
		}
		return e, nil
	case gone:
		return container.Exit{Removed: true}, nil
	}
	return container.Exit{Code: -1, Why: engine.OneLine(p.Status.Reason + " " + p.Status.Message)}, nil
}

// Remove deletes a pod and returns when its node has ended all its containers.
func (c *cluster) Remove(ctx context.Context, id string) error {
	c.updateNote(id, func(n *podNote) { n.stream = nil })
	err := c.remove(ctx, id)
	if err != nil {
		c.lease.addOwed(id)
	}
	return err
}

// Limits of one removal, and of an API server's silence before a pod is left to the lease: this server removes the
// pod once the API server answers again, or another server does if this one has ended.
const (
	removeTimeout = 5 * time.Second
	outage        = 10 * time.Second
)

func (c *cluster) remove(ctx context.Context, id string) error {
	if taken, err := c.withdrawOffer(ctx, id); taken || err != nil {
		return err
	}
	answered := time.Now()
	version := c.versionOf(id)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := c.delete(ctx, id, version)
		failed, is := errors.AsType[*statusError](err)
		switch {
		case isStatus(err, http.StatusNotFound):
			c.pods.forget(id)
			return nil
		case version != "" && isStatus(err, http.StatusConflict):
			return nil // another server owns the pod, or will find that nobody renews its lease
		case err == nil: // it is being removed: if the watch is late, the next request reports that it is gone
			answered, version = time.Now(), ""
			soon, cancel := context.WithTimeout(ctx, time.Second)
			_, _, _ = c.pods.await(soon, id, func(pod) bool { return false })
			cancel()
		case is && failed.Code < 500 && failed.Code != http.StatusTooManyRequests && failed.Code != http.StatusConflict:
			return fmt.Errorf("remove pod %s: %w", id, err)
		case !is && time.Since(answered) > outage:
			return fmt.Errorf("remove pod %s: %w", id, err)
		}
		if !engine.Pause(ctx, pause) {
			return fmt.Errorf("remove pod %s: %w", id, cmp.Or(err, context.Cause(ctx)))
		}
	}
}

// versionOf returns the version of a pod that List has found, and that this server did not make: only that version
// may be removed.
func (c *cluster) versionOf(id string) (version string) {
	_, other := c.pods.lastState(id)
	c.updateNote(id, func(n *podNote) {
		if other {
			version = n.version
		}
		n.version = ""
	})
	return version
}

// delete requests the removal of a pod, of one version unless that is "".
func (c *cluster) delete(ctx context.Context, id, version string) error {
	soon, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	options := object{"gracePeriodSeconds": 1}
	if version != "" {
		options["preconditions"] = map[string]string{"resourceVersion": version}
	}
	return c.call(soon, http.MethodDelete, c.pathOf("v1", "pods", id), nil, options, nil)
}

func (c *cluster) List(ctx context.Context, label string) ([]container.Entry, error) {
	var list struct{ Items []pod }
	if err := c.get(ctx, c.pathOf("v1", "pods", ""), query("labelSelector", label+","+labelRole+"="+roleSandbox), &list); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var all []container.Entry
	for _, p := range list.Items {
		c.updateNote(p.Meta.Name, func(n *podNote) { n.version = p.Meta.ResourceVersion })
		all = append(all, container.Entry{ID: p.Meta.Name, Labels: p.Meta.Labels})
	}
	return all, nil
}
