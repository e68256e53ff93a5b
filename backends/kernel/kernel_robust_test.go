//go:build linux

package kernel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// channelOf is Python code that sets channel to the driver's descriptor.
const channelOf = `
import os, struct, threading, time
channel = max(int(f) for f in os.listdir('/proc/self/fd') if os.path.islink('/proc/self/fd/' + f) and os.readlink('/proc/self/fd/' + f).startswith('socket:'))
def send(data):
    data = struct.pack('>I', len(data)) + data
    while data:
        data = data[os.write(channel, data[:1 << 20]):]
`

func TestLargeFramesWaitUntilSomebodyAsks(t *testing.T) {
	sb := newBare(t, map[string]string{"python": python(t)})
	s := startSession(t, sb, "python")
	s.run(channelOf + `
reads = '0 %#x ' % channel
def late():
    while not open('/proc/self/task/%d/syscall' % os.getpid()).read().startswith(reads): time.sleep(.001)
    send(b'{"op":"display","id":0,"data":{"text/plain":"' + b'x' * (8 << 20) + b'"}}')
    ended.append(time.time())
ended = []
threading.Thread(target=late).start()
`)
	writes, waited := fmt.Sprintf("%d 0x", syscall.SYS_WRITE), 0
	hosttest.Until(t, "the frame waits to be read", func() bool {
		waited++
		if tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", sb.pid)); !slices.ContainsFunc(tasks, func(name string) bool {
			text, _ := os.ReadFile(name)
			return strings.HasPrefix(string(text), writes)
		}) {
			waited = 0
		}
		return waited == 6
	})
	asked := time.Now()
	got := s.run("while not ended: time.sleep(.001)\nprint(ended[0])")
	ended, err := strconv.ParseFloat(strings.TrimSpace(got.Stdout), 64)
	if err != nil || got.Ended != "ok" || ended < float64(asked.UnixNano())/1e9 {
		t.Errorf("the frame: %q, %s; want it to have been read when the next cell ran", got.Stdout, got.Ended)
	}
}

func TestFormsWithLongNamesAreLeftOut(t *testing.T) {
	s := sandboxed(t, "python", backends.Limits{})
	got := s.run(`
class A:
    def _repr_mimebundle_(self, *a, **k): return {'text/plain': 'short', 'k' * 1000: 'long'}
display(A()); A()`)
	if len(got.Displays) != 1 || len(got.Displays[0]) != 1 || len(got.Value) != 1 || got.Value["text/plain"] != "short" {
		t.Errorf("shown %v, value %v; want the short name alone", got.Displays, got.Value)
	}
}

func TestPythonSurvivesDeepValues(t *testing.T) {
	s := sandboxed(t, "python", backends.Limits{})
	s.run("x = 5")
	if err := s.Set(t.Context(), "v", json.RawMessage(strings.Repeat("[", 5000)+strings.Repeat("]", 5000))); err == nil {
		t.Error("no error for a value that is nested 5000 deep")
	}
	if got := s.run("x"); got.Value["text/plain"] != "5" {
		t.Errorf("after it: %v, %s", got.Value, got.Ended)
	}
}
