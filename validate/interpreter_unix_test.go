//go:build unix

package validate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// realPython is this machine's Python, which runs the analyser.
type realPython struct {
	one  sync.Mutex
	conn *os.File
}

// startPython starts the analyser for the duration of a test.
func startPython(t testing.TB) *realPython {
	t.Helper()
	path := hosttest.Program(t, "python3")
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(pair[0])
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	cmd := exec.Command(path, "-I", "-S", "-c", PythonAnalyser())
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		ours.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the analyser ended with %v", err)
		}
	})
	return &realPython{conn: ours}
}

// minor returns the minor version of this machine's Python 3.
func (p *realPython) minor(t testing.TB) int {
	t.Helper()
	answer, err := p.Analyse(t.Context(), []byte(`{"source":""}`))
	if err != nil {
		t.Fatal(err)
	}
	var response struct{ Version string }
	var minor int
	if err := json.Unmarshal(answer, &response); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(response.Version, "3.%d.", &minor); err != nil {
		t.Fatalf("%q: %v", response.Version, err)
	}
	return minor
}

func (p *realPython) Analyse(ctx context.Context, request []byte) ([]byte, error) {
	p.one.Lock()
	defer p.one.Unlock()
	if _, err := p.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 64<<20 {
		return nil, errors.New("the answer is too long")
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(p.conn, answer)
	return answer, err
}
