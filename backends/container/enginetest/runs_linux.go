package enginetest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// checkRuns runs a container on an engine: the kernel or cgroups of a machine may permit none even though the
// engine answers.
func (e *engine) checkRuns() error {
	program := findPrograms("false")
	l, err := makeLayer(e.dir, "ender", map[string]bool{}, func(l *layerWriter) { l.copyPrograms(program...) })
	if err != nil {
		return err
	}
	const reference = "localhost/sandboxmcp-test:ender"
	from, to := io.Pipe()
	go func() { to.CloseWithError(writeArchive(to, reference, []layer{l}, nil)) }()
	if err := load(e.url(), from); err != nil {
		return fmt.Errorf("load an image: %w", err)
	}
	socket := strings.TrimPrefix(e.url(), "unix://")
	// Podman's default limits may exceed ours.
	order := `{"Image": "` + reference + `", "Entrypoint": ["` + strings.Join(program, "") + `"], "HostConfig": {"NetworkMode": "none",
		"Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 1024}, {"Name": "nproc", "Soft": 4096, "Hard": 4096}]}}`
	text, err := callAPI(socket, "POST", "/v1.40/containers/create", strings.NewReader(order))
	var c struct {
		ID string `json:"Id"`
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return err
	}
	defer callAPI(socket, "DELETE", "/v1.40/containers/"+c.ID+"?force=1", nil)
	if _, err := callAPI(socket, "POST", "/v1.40/containers/"+c.ID+"/start", nil); err != nil {
		return err
	}
	if text, err = callAPI(socket, "POST", "/v1.40/containers/"+c.ID+"/wait", nil); err != nil {
		return err
	}
	var ended struct{ StatusCode int }
	if err := json.Unmarshal(text, &ended); err != nil || ended.StatusCode != 1 {
		return fmt.Errorf("a container ended with %s, want exit code 1", text)
	}
	return nil
}
