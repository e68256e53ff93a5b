package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// client sends requests to an API server.
type client struct {
	rest      *rest.Config
	base      *url.URL
	http      *http.Client
	namespace string
}

func newClient(c Config) (*client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, backends.Refuse("no cluster is configured: "+engine.OneLine(err.Error()),
			"set KUBECONFIG, or kubernetes.kubeconfig and kubernetes.context")
	}
	k := &client{rest: config, namespace: c.Namespace}
	if k.namespace == "" {
		if k.namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("find the cluster's namespace: %w", err)
		}
	}
	if k.base, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	if k.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return k, nil
}

// statusError is an error response of an API server.
type statusError struct {
	Code            int
	Reason, Message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the API server returned %d %s: %s", e.Code, e.Reason, engine.OneLine(e.Message))
}

func isStatus(err error, code int) bool {
	s, is := errors.AsType[*statusError](err)
	return is && s.Code == code
}

// maxObject bounds the bytes of one response.
const maxObject = 64 << 20

// request sends a request and returns the response's body. path is below the server's root.
func (c *client) request(ctx context.Context, method, path string, params url.Values, in any, contentType string) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	at := *c.base
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "/")+path, params.Encode()
	q, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", "application/json")
	if in != nil {
		q.Header.Set("Content-Type", contentType)
	}
	r, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	if r.StatusCode < 300 {
		return r.Body, nil
	}
	defer r.Body.Close()
	failed := &statusError{}
	if text, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)); json.Unmarshal(text, failed) != nil {
		failed.Message = string(text)
	}
	failed.Code = r.StatusCode
	return nil, failed
}

const (
	plainJSON  = "application/json"
	mergePatch = "application/merge-patch+json"
)

// call sends a request, and decodes the response into out, which may be nil.
func (c *client) call(ctx context.Context, method, path string, params url.Values, in, out any) error {
	contentType := plainJSON
	if method == http.MethodPatch {
		contentType = mergePatch
	}
	r, err := c.request(ctx, method, path, params, in, contentType)
	if err != nil {
		return err
	}
	defer r.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(r, maxObject)).Decode(out); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	return nil
}

func (c *client) get(ctx context.Context, path string, params url.Values, out any) error {
	return c.call(ctx, http.MethodGet, path, params, nil, out)
}

// pathOf returns the path of a kind of objects in our namespace, or of one named object.
func (c *client) pathOf(group, kind, name string) string {
	prefix := "/apis/" + group
	if group == "v1" {
		prefix = "/api/v1"
	}
	path := prefix + "/namespaces/" + url.PathEscape(c.namespace) + "/" + kind
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}
