package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Kubeconfig is the path in KUBECONFIG of the test cluster's file, read before any test poisons the environment.
var Kubeconfig = os.Getenv("KUBECONFIG")

// nodeImages are the images that this process has imported into the node, with the import's error.
var nodeImages struct {
	sync.Mutex
	imported map[string]error
}

// NodeImage imports one of the images into the cluster's node and returns its reference. The node's containerd must
// be reachable from this machine, next to its kubeconfig.
func NodeImage(t testing.TB, name string) string {
	t.Helper()
	if Kubeconfig == "" {
		hosttest.SkipMissing(t, "kubernetes", "KUBECONFIG names no cluster")
	}
	reference := "docker.io/sandboxmcp-test/" + name + ":local"
	nodeImages.Lock()
	defer nodeImages.Unlock()
	err, known := nodeImages.imported[name]
	if !known {
		if err = importImage(reference, name); nodeImages.imported == nil {
			nodeImages.imported = map[string]error{}
		}
		nodeImages.imported[name] = err
	}
	if err != nil {
		hosttest.SkipMissing(t, "kubernetes", err.Error())
	}
	return reference
}

// NodeSocket returns the socket of the node's containerd.
func NodeSocket() string {
	return filepath.Join(filepath.Dir(filepath.Dir(Kubeconfig)), "ctd", "containerd.sock")
}

func importImage(reference, name string) error {
	if _, err := os.Stat(NodeSocket()); err != nil {
		return fmt.Errorf("the cluster's node is not of this machine, and can't be given images: %w", err)
	}
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "image.tar")
	defer os.Remove(file) // its layers serve other images, and are removed with the temporary directories
	f, err := os.Create(file)
	if err == nil {
		err = cmp.Or(Save(f, reference, name, dir), f.Close())
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	if out, err := exec.Command("ctr", "-a", NodeSocket(), "-n", "k8s.io", "images", "import", file).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("import %s: %w", reference, err), errors.New(string(out)))
	}
	return nil
}
