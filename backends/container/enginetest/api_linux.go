package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// callAPI sends a request to an engine's socket. Podman serves the same paths as Docker.
func callAPI(socket, method, path string, body io.Reader) ([]byte, error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}
	// otherwise a supervisor outlives its test with an engine that hangs
	client := &http.Client{Transport: transport, Timeout: 10 * time.Minute}
	r, err := http.NewRequest(method, "http://engine"+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/x-tar"}[strings.HasSuffix(path, "/create")])
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 400 {
		err = fmt.Errorf("%s %s: %s %.500s", method, path, answer.Status, text)
	}
	return text, err
}

// entry is a container in an engine's list.
type entry struct {
	ID     string `json:"Id"`
	Names  []string
	Labels map[string]string
	State  string
}

func containers(socket string) (all []entry, err error) {
	text, err := callAPI(socket, "GET", "/v1.40/containers/json?all=1", nil)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &all)
	return all, err
}

// removeContainers removes all containers, so that an engine ends at once and leaves no cgroups.
func (k *supervisor) removeContainers() {
	socket := k.dir + "/" + k.kind + ".sock"
	all, _ := containers(socket)
	for _, c := range all {
		path := "/v1.40/containers/" + c.ID + "?force=1&v=1"
		if k.kind == "podman" { // Podman sends SIGTERM first, and waits
			path = "/v4.0.0/libpod/containers/" + c.ID + "?force=true&v=true&timeout=0"
		}
		callAPI(socket, "DELETE", path, nil)
	}
}

// ListLeftovers returns a function for backendtest's Options.Left: it lists containers and volumes that have the id
// in their name or labels. Removal may take a moment after a sandbox was closed.
func ListLeftovers(engineURL string) func(t testing.TB, id string) []string {
	return func(t testing.TB, id string) (found []string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Logf("left of %s: %v", id, found)
			}
		}()
		hosttest.Until(t, "the engine has nothing of "+id, func() bool {
			found = listRemains(t, engineURL, id)
			return len(found) == 0
		})
		return nil
	}
}

func listRemains(t testing.TB, engineURL, id string) (found []string) {
	t.Helper()
	socket := strings.TrimPrefix(engineURL, "unix://")
	all, err := containers(socket)
	if err != nil {
		t.Fatalf("list containers: %v", err)
	}
	for _, c := range all {
		if len(c.Names) == 0 && c.State == "dead" {
			continue // a Docker that was killed in the middle of a removal lists missing containers
		}
		if text := strings.ToLower(fmt.Sprint(c)); strings.Contains(text, strings.ToLower(id)) {
			found = append(found, "container "+text)
		}
	}
	var volumes struct {
		Volumes []struct{ Name, Mountpoint string }
	}
	text, err := callAPI(socket, "GET", "/v1.40/volumes", nil)
	if err == nil {
		err = json.Unmarshal(text, &volumes)
	}
	if err != nil {
		t.Fatalf("list volumes: %v", err)
	}
	for _, v := range volumes.Volumes {
		if !strings.HasPrefix(v.Name, "sandboxmcp-") { // seed volumes stay
			found = append(found, "volume "+v.Name)
		}
	}
	return found
}

// ListAll lists all containers, volumes and mounts of an engine, for a comparison of before and after.
func ListAll(t testing.TB, engineURL string) []string {
	t.Helper()
	found := listRemains(t, engineURL, "")
	e := engineAt(t, engineURL)
	for _, point := range mountsUnder(fmt.Sprintf("/proc/%d/mountinfo", e.supervisor.Process.Pid), e.dir) {
		found = append(found, "mount "+point)
	}
	return found
}

// load imports images in the format of `docker save` into an engine.
func load(engineURL string, archive io.Reader) error {
	u, err := url.Parse(engineURL)
	if err != nil {
		return err
	}
	answer, err := callAPI(u.Path, "POST", "/v1.40/images/load?quiet=1", archive)
	if err != nil {
		return err
	}
	if strings.Contains(string(answer), "errorDetail") {
		return fmt.Errorf("load: %s", answer)
	}
	return nil
}
