package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeAPI is an API server for the objects of one namespace, as an [http.RoundTripper]: growing versions, merge
// patches and deletions of one version, lists and watches by label. Each request takes latency.
type fakeAPI struct {
	latency func(method string) time.Duration
	fail    func(q *http.Request) error // returns an error for a request to refuse, if not nil
	start   func(p map[string]any)      // starts a pod like a cluster, if not nil; called once per pod, in a goroutine

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]any // by path
	watchers map[*fakeWatch]struct{}
	counts   map[string]int // requests by method and status
}

type fakeWatch struct {
	prefix, selector string
	events           chan []byte
	done             <-chan struct{}
}

func newFake() *fakeAPI {
	node := map[string]any{"metadata": map[string]any{"name": "node1"}}
	return &fakeAPI{objects: map[string]map[string]any{"/api/v1/nodes/node1": node}, watchers: map[*fakeWatch]struct{}{},
		counts: map[string]int{}}
}

// client returns a client of the fake API.
func (f *fakeAPI) client() *client {
	base, _ := url.Parse("https://192.0.2.1:6443")
	return &client{base: base, http: &http.Client{Transport: f}, namespace: "space"}
}

// server returns a server that uses the fake API.
func (f *fakeAPI) server(t *testing.T, config Config) *cluster {
	t.Helper()
	c, err := joinCluster(t.Context(), f.client(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.lease.close(); err != nil {
			t.Error(err)
		}
		c.pods.close()
	})
	return c
}

// RoundTrip implements [http.RoundTripper].
func (f *fakeAPI) RoundTrip(q *http.Request) (*http.Response, error) {
	var in map[string]any
	if q.Body != nil {
		if err := json.NewDecoder(q.Body).Decode(&in); err != nil {
			return nil, err
		}
	}
	if f.latency != nil {
		select {
		case <-time.After(f.latency(q.Method)):
		case <-q.Context().Done():
			return nil, q.Context().Err()
		}
	}
	if f.fail != nil {
		if err := f.fail(q); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	code, out := f.serve(q, in)
	f.counts[fmt.Sprint(q.Method, " ", code)]++
	body, is := out.(io.ReadCloser)
	if !is {
		text, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		body = io.NopCloser(bytes.NewReader(text))
	}
	return &http.Response{StatusCode: code, Body: body, Request: q, Header: http.Header{}}, nil
}

func (f *fakeAPI) serve(q *http.Request, in map[string]any) (code int, out any) {
	path := q.URL.Path
	object := f.objects[path]
	switch {
	case path == "/version":
		return 200, map[string]any{"gitVersion": "v1.34.1", "minor": "34"}
	case q.Method == http.MethodPost:
		at := path + "/" + metaOf(in)["name"].(string)
		if f.objects[at] != nil {
			return http.StatusConflict, nil
		}
		metaOf(in)["uid"] = "uid-" + strconv.Itoa(f.version)
		f.store(at, in, "ADDED")
		if f.start != nil && strings.HasSuffix(path, "/pods") {
			go f.start(in)
		}
		return 201, in
	case q.URL.Query().Get("watch") != "":
		return 200, f.serveWatch(q)
	case q.Method == http.MethodGet && (strings.HasSuffix(path, "/pods") || strings.HasSuffix(path, "/leases") ||
		strings.HasSuffix(path, "/nodes")):
		all := []any{}
		for at, o := range f.objects {
			if strings.HasPrefix(at, path+"/") && matchesSelector(q.URL.Query().Get("labelSelector"), o) {
				all = append(all, o)
			}
		}
		return 200, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version)}, "items": all}
	case object == nil:
		return http.StatusNotFound, nil
	case q.Method == http.MethodPatch:
		return f.patch(path, object, in)
	case q.Method == http.MethodDelete:
		conditions, _ := in["preconditions"].(map[string]any)
		if v, is := conditions["resourceVersion"]; is && v != metaOf(object)["resourceVersion"] {
			return http.StatusConflict, nil
		}
		f.drop(path)
		return 200, nil
	}
	return 200, object
}

// patch merges in, if it has the object's version.
func (f *fakeAPI) patch(path string, object, in map[string]any) (int, any) {
	if m, is := in["metadata"].(map[string]any); is {
		if v, is := m["resourceVersion"]; is && v != metaOf(object)["resourceVersion"] {
			return http.StatusConflict, nil
		}
	}
	before := object
	object = merge(object, in)
	f.version++
	metaOf(object)["resourceVersion"] = strconv.Itoa(f.version)
	f.objects[path] = object
	for w := range f.watchers { // like an API server: deleted from one selection, added to another
		switch was, is := w.sees(path, before), w.sees(path, object); {
		case was && is:
			w.send("MODIFIED", object)
		case was:
			w.send("DELETED", object)
		case is:
			w.send("ADDED", object)
		}
	}
	return 200, object
}

// merge applies a merge patch (RFC 7396) to a copy of object.
func merge(object, patch map[string]any) map[string]any {
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	for key, value := range patch {
		inner, is := value.(map[string]any)
		switch old, _ := object[key].(map[string]any); {
		case value == nil:
			delete(object, key)
		case is:
			object[key] = merge(old, inner)
		default:
			object[key] = value
		}
	}
	return object
}

func (f *fakeAPI) store(at string, o map[string]any, event string) {
	f.version++
	metaOf(o)["resourceVersion"] = strconv.Itoa(f.version)
	f.objects[at] = o
	f.sendEvent(event, at, o)
}

func (f *fakeAPI) drop(at string) {
	o := f.objects[at]
	delete(f.objects, at)
	f.version++
	f.sendEvent("DELETED", at, o)
}

func (f *fakeAPI) sendEvent(event, at string, o map[string]any) {
	for w := range f.watchers {
		if w.sees(at, o) {
			w.send(event, o)
		}
	}
}

// setStatus writes a pod's status like its node.
func (f *fakeAPI) setStatus(name string, status map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := "/api/v1/namespaces/space/pods/" + name
	if o := f.objects[path]; o != nil {
		f.patch(path, o, map[string]any{"status": status})
	}
}

// vanish removes a pod by force, as for a lost node.
func (f *fakeAPI) vanish(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop("/api/v1/namespaces/space/pods/" + name)
}

// runningStatus is the status of a running pod.
func runningStatus() map[string]any {
	running := map[string]any{"running": map[string]any{}}
	return map[string]any{"phase": "Running", "containerStatuses": []any{
		map[string]any{"name": relayName, "state": running}, map[string]any{"name": programName, "state": running, "imageID": "image@sha256:0"}}}
}

func (f *fakeAPI) serveWatch(q *http.Request) io.ReadCloser {
	w := &fakeWatch{q.URL.Path, q.URL.Query().Get("labelSelector"), make(chan []byte, 10_000), q.Context().Done()}
	f.watchers[w] = struct{}{}
	r, to := io.Pipe()
	go func() {
		defer func() {
			f.mu.Lock()
			delete(f.watchers, w)
			f.mu.Unlock()
			to.Close()
		}()
		for {
			select {
			case e := <-w.events:
				if _, err := to.Write(e); err != nil {
					return
				}
			case <-w.done:
				return
			}
		}
	}()
	return r
}

func (w *fakeWatch) sees(at string, o map[string]any) bool {
	return strings.HasPrefix(at, w.prefix+"/") && matchesSelector(w.selector, o)
}

func (w *fakeWatch) send(event string, o map[string]any) {
	text, _ := json.Marshal(map[string]any{"type": event, "object": o})
	w.events <- text
}

// matchesSelector supports "key=value" and "key!=value".
func matchesSelector(selector string, o map[string]any) bool {
	labels, _ := metaOf(o)["labels"].(map[string]any)
	for term := range strings.SplitSeq(selector, ",") {
		if term == "" {
			continue
		}
		key, want, _ := strings.Cut(term, "=")
		key, not := strings.CutSuffix(key, "!")
		if has, _ := labels[key].(string); (has == want) == not {
			return false
		}
	}
	return true
}

func metaOf(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}
