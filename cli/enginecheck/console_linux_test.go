package enginecheck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/cli/markdowntest"
)

// TestConsole runs the console blocks that need images, which cli/sandboxmcp leaves out.
func TestConsole(t *testing.T) {
	url := enginetest.Podman(t)
	dir, err := os.MkdirTemp("", "c") // short, since sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin, runtime := filepath.Join(dir, "bin"), filepath.Join(dir, "run")
	for _, d := range []string{bin, runtime} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", commandVariable, testProgram(t))
	if err := os.WriteFile(filepath.Join(bin, "sandboxmcp"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+dir, "XDG_RUNTIME_DIR="+runtime, "CONTAINER_HOST="+url,
		"DOCKER_HOST=unix://"+dir+"/docker.sock")
	for language, image := range testImages(t, url) {
		env = append(env, "SANDBOXMCP_IMAGE_"+strings.ToUpper(language)+"="+image)
	}
	markdowntest.Run(t, "../../backends/README.md", markdowntest.Machine{
		Dir: dir, Env: env, With: "../sandboxmcp/testdata/console/backends_README.md.txtar",
		Need: func(t testing.TB, needs []string) {
			if !slices.Contains(needs, "images") {
				t.Skip("it needs no images: cli/sandboxmcp runs it")
			}
			if slices.Contains(needs, "root") && os.Geteuid() != 0 {
				t.Skip("it needs root: the engine maps users here")
			}
		},
	})
}
