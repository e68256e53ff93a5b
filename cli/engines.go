package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// engines looks for container engines: a socket that answers, or else a program.
func engines(ctx context.Context) []finding {
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	podman := []string{os.Getenv("CONTAINER_HOST"), "/run/podman/podman.sock"}
	docker := []string{os.Getenv("DOCKER_HOST"), "/var/run/docker.sock"}
	if runtimeDir != "" {
		podman = append(podman, filepath.Join(runtimeDir, "podman/podman.sock"))
		docker = append(docker, filepath.Join(runtimeDir, "docker.sock"))
	}
	return []finding{engine(ctx, "podman", podman), engine(ctx, "docker", docker)}
}

func engine(ctx context.Context, name string, sockets []string) finding {
	f := finding{Kind: "engine", Name: name}
	var tried []string
	for _, s := range sockets {
		if s == "" {
			continue
		}
		path := strings.TrimPrefix(s, "unix://")
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			conn.Close()
			f.OK, f.Detail = true, "answers at "+path
			return f
		}
		tried = append(tried, path)
	}
	if program, err := exec.LookPath(name); err == nil {
		f.Detail = fmt.Sprintf("%s is installed, and no socket answers (tried %s)", program, strings.Join(tried, ", "))
		f.OK = name == "podman" // it needs no server
		return f
	}
	f.Detail = fmt.Sprintf("not found: no program, and no socket answers (tried %s)", strings.Join(tried, ", "))
	return f
}

// stateFinding opens the audit log, as every run does.
func stateFinding(ctx context.Context, cfg config.Config) finding {
	f := finding{Kind: "state", Name: "audit", Needed: true, Detail: cfg.SQLitePath}
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	defer log.Close()
	f.OK = true
	return f
}
