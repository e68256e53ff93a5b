//go:build linux

package kernel

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// channelOf is Python code that makes channel the descriptor on which the driver speaks.
const channelOf = `
import os, struct, threading, time
channel = max(int(f) for f in os.listdir('/proc/self/fd') if os.path.islink('/proc/self/fd/' + f) and os.readlink('/proc/self/fd/' + f).startswith('socket:'))
def send(data):
    data = struct.pack('>I', len(data)) + data
    while data:
        data = data[os.write(channel, data[:1 << 20]):]
`

func TestLargeFramesWaitUntilSomebodyAsks(t *testing.T) {
	s := begin(t, sandboxed(t, backends.Limits{}), "python")
	s.run(channelOf + `
def late():
    time.sleep(.2)
    send(b'{"op":"display","id":0,"data":{"text/plain":"' + b'x' * (8 << 20) + b'"}}')
    ended.append(time.time())
ended = []
threading.Thread(target=late).start()
`)
	time.Sleep(time.Second)
	got := s.run("now = time.time(); time.sleep(.5); print(len(ended), ended[0] > now - .3)")
	if got.Stdout != "1 True\n" || got.Ended != "ok" {
		t.Errorf("the frame: %q, %s; want it to have been read when the next cell ran", got.Stdout, got.Ended)
	}
}

func TestFormsWithLongNamesAreLeftOut(t *testing.T) {
	s := begin(t, sandboxed(t, backends.Limits{}), "python")
	got := s.run(`
class A:
    def _repr_mimebundle_(self, *a, **k): return {'text/plain': 'short', 'k' * 1000: 'long'}
display(A()); A()`)
	if len(got.Shown) != 1 || len(got.Shown[0]) != 1 || len(got.Value) != 1 || got.Value["text/plain"] != "short" {
		t.Errorf("shown %v, value %v; want the short name alone", got.Shown, got.Value)
	}
}

func TestPythonSurvivesDeepValues(t *testing.T) {
	s := begin(t, sandboxed(t, backends.Limits{}), "python")
	s.run("x = 5")
	if err := s.Set(t.Context(), "v", json.RawMessage(strings.Repeat("[", 5000)+strings.Repeat("]", 5000))); err == nil {
		t.Error("no error for a value that is nested 5000 deep")
	}
	if got := s.run("x"); got.Value["text/plain"] != "5" {
		t.Errorf("after it: %v, %s", got.Value, got.Ended)
	}
}
