package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// Start stands in the place of a language where a program of ours starts for a command that does nothing.
const Start = "start"

const helloWorld = "package main\n\nfunc main() { println(1) }\n"

// starts measures our start beside that of the smallest program in Go: a hello-world where a toolchain is there to build it,
// and else our own in the role of the sandboxes' launcher, which ends before most packages are initialised and takes about as long.
func (b *bench) starts(ctx context.Context) {
	version := Runs(b.environ("alone"), b.Program, "version")
	what, once, err := b.hello(ctx)
	if err != nil && runtime.GOOS != "linux" {
		b.leaveOut("the start of a Go program", err)
		return
	}
	if err != nil {
		what, once = "sandboxmcp as launcher, which ends at once", func(ctx context.Context) (Answer, error) {
			cmd := command(ctx, Clean(), b.Program)
			cmd.Args[0] = launch.Name
			return Answer{}, finish(cmd)
		}
	}
	b.variants = append(b.variants,
		&Variant{Language: Start, Name: Bare, What: what, silent: true, Once: once},
		&Variant{Language: Start, Name: Version, What: Version, silent: true, Once: version})
}

// hello builds the hello-world.
func (b *bench) hello(ctx context.Context) (what string, once func(context.Context) (Answer, error), err error) {
	toolchain, err := exec.LookPath("go")
	if err != nil {
		return "", nil, errors.New("no Go toolchain")
	}
	source, program := filepath.Join(b.dir, "hello.go"), filepath.Join(b.dir, "hello")
	if err := os.WriteFile(source, []byte(helloWorld), 0o600); err != nil {
		return "", nil, err
	}
	environ := append(b.environ("alone"), "CGO_ENABLED=0", "GO111MODULE=off", "GOFLAGS=", "GOTOOLCHAIN=local")
	version, err := Output(ctx, environ, toolchain, "env", "GOVERSION")
	if err == nil {
		_, err = Output(ctx, environ, toolchain, "build", "-o", program, source)
	}
	return "a hello-world by " + strings.TrimSpace(version), Runs(Clean(), program), err
}
