package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// watcher watches our pods with one request.
type watcher struct {
	client *client
	lost   func(name string) // called when a pod is gone or no longer ours
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	pods map[string]*watched
}

// watched is the last known state of a pod.
type watched struct {
	pod     pod
	gone    bool
	changed chan struct{} // closed and replaced at each change
}

func (c *client) watch(labels string, lost func(name string)) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{client: c, lost: lost, cancel: cancel, done: make(chan struct{}), pods: map[string]*watched{}}
	go func() {
		defer close(w.done)
		for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 2*time.Second) {
			if w.listAndWatch(ctx, labels) {
				pause = 50 * time.Millisecond
			}
			engine.Pause(ctx, pause)
		}
	}()
	return w
}

func (w *watcher) close() {
	w.cancel()
	<-w.done
}

// listAndWatch lists all pods and then watches them until the server ends the watch. It reports whether the list
// succeeded.
func (w *watcher) listAndWatch(ctx context.Context, labels string) bool {
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []pod
	}
	asked := w.liveNames()
	path := w.client.pathOf("v1", "pods", "")
	if err := w.client.get(ctx, path, query("labelSelector", labels), &list); err != nil {
		return false
	}
	for _, p := range list.Items {
		delete(asked, p.Meta.Name)
		w.store(p, false)
	}
	for name := range asked {
		w.store(pod{Meta: meta{Name: name}}, true)
		w.lost(name)
	}
	_ = watchEvents(ctx, w.client, path, url.Values{"labelSelector": {labels}, "resourceVersion": {list.Metadata.ResourceVersion}},
		func(kind string, p pod) bool {
			w.store(p, kind == deleted)
			if kind == deleted {
				w.lost(p.Meta.Name)
			}
			return true
		})
	return true
}

// deleted is the event type for a removed object.
const deleted = "DELETED"

// watchEvents calls f for each change of objects of one kind, until f returns false, the server ends the watch, or ctx
// ends.
func watchEvents[T any](ctx context.Context, c *client, path string, params url.Values, f func(kind string, object T) (more bool)) error {
	params.Set("watch", "1")
	body, err := c.request(ctx, http.MethodGet, path, params, nil, "")
	if err != nil {
		return err
	}
	defer body.Close()
	for d := json.NewDecoder(body); ; {
		var e struct {
			Type   string
			Object T
		}
		if err := d.Decode(&e); err != nil {
			return err
		}
		if e.Type == "ERROR" || !f(e.Type, e.Object) {
			return nil
		}
	}
}

// liveNames returns the pods that were made and still exist as far as we know: a list that is requested now contains
// them.
func (w *watcher) liveNames() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := map[string]bool{}
	for name, p := range w.pods {
		if !p.gone && p.pod.Meta.UID != "" {
			names[name] = true
		}
	}
	return names
}

// track starts tracking a pod, which may be created next.
func (w *watcher) track(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[name] = &watched{changed: make(chan struct{})}
}

// store stores the state of a pod. If the pod is gone, its last state stays.
func (w *watcher) store(p pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[p.Meta.Name]
	if known == nil || known.gone { // an event that came after the removal
		return
	}
	if known.gone = gone; p.Meta.UID != "" {
		known.pod = p
	}
	close(known.changed)
	known.changed = make(chan struct{})
}

// forget drops a pod that is gone.
func (w *watcher) forget(name string) {
	w.store(pod{Meta: meta{Name: name}}, true)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, name)
}

// lastState returns the last state of a pod.
func (w *watcher) lastState(name string) (p pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[name]; known != nil {
		return known.pod, known.gone
	}
	return pod{}, true
}

// await calls f with each state of a pod until f returns true, the pod is gone, or ctx ends.
func (w *watcher) await(ctx context.Context, name string, f func(pod) bool) (last pod, gone bool, err error) {
	for {
		w.mu.Lock()
		known := w.pods[name]
		if known == nil {
			w.mu.Unlock()
			return last, true, nil
		}
		var changed chan struct{}
		last, gone, changed = known.pod, known.gone, known.changed
		w.mu.Unlock()
		if gone || f(last) {
			return last, gone, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return last, false, context.Cause(ctx)
		}
	}
}
