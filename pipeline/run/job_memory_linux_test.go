package run_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// TestJobsHoldMemory: the content of a request counts as long as its run in the background has it.
func TestJobsHoldMemory(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	jobs := make(chan string, 3)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := door.Authenticate(r.Context(), "somebody")
		if err == nil {
			_, err = door.ReadBody(r, door.MaxBody)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		id, _ := run.StartJob(r.Context(), p, run.Request{Language: "shell", Code: []byte("sleep 1000")})
		jobs <- id
		fmt.Fprintln(w, id)
	})
	d, err := door.Listen(t.Context(), door.Config{Address: "127.0.0.1:0", Handler: handler})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Drain(t.Context())
	body := strings.Repeat("x", door.MaxBody) // of which two, with their requests, are more than one identity has
	post := func() int {
		w, err := http.Post(d.Address(), "text/plain", strings.NewReader(body))
		if err != nil { // refused before all was read
			return http.StatusTooManyRequests
		}
		w.Body.Close()
		return w.StatusCode
	}
	if got := post(); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	if got := post(); got != http.StatusTooManyRequests {
		t.Errorf("beside a job: got %d", got)
	}
	if !run.CancelJob(p, "", <-jobs) {
		t.Fatal("there is no job")
	}
	hosttest.Until(t, "the job's memory is given back", func() bool { return post() == http.StatusOK })
	run.CancelJob(p, "", <-jobs)
}
