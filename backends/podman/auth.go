package podman

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// registryAuth returns the header with the credentials for an image's registry, nil if there are none. It names the
// registry, so that the service uses it nowhere else, however it parses the reference. Credentials in a helper
// (credHelpers, credsStore) are left to the service, which may know the helper.
func (env environ) registryAuth(name string) (http.Header, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, backends.Refuse(fmt.Sprintf("invalid image name %.200q: %v", name, err), "name it as NAME, NAME:TAG or NAME@sha256:...")
	}
	registry := reference.Domain(named)
	for _, file := range env.authFiles() {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found, ok, err := findLogin(data, registry, reference.Path(named))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if !ok {
			continue
		}
		all, err := json.Marshal(map[string]types.AuthConfig{registry: found})
		if err != nil {
			return nil, err
		}
		return http.Header{"X-Registry-Auth": {base64.URLEncoding.EncodeToString(all)}}, nil
	}
	return nil, nil
}

// authFiles lists the files that podman login and docker login write, in Podman's order.
func (env environ) authFiles() []string {
	if one := env["REGISTRY_AUTH_FILE"]; one != "" {
		return []string{one}
	}
	list := []string{
		filepath.Join(env.configDir(), "containers", "auth.json"),
		filepath.Join(cmp.Or(env["DOCKER_CONFIG"], filepath.Join(env.home(), ".docker")), "config.json"),
		filepath.Join(env.home(), ".dockercfg"),
	}
	if runtime.GOOS == "linux" {
		list = append([]string{filepath.Join(backends.RuntimeDir(env.get, os.Geteuid()), "containers", "auth.json")}, list...)
	}
	return list
}

// findLogin finds credentials in a file. An entry for a part of a registry takes precedence over one for all of it.
func findLogin(data []byte, registry, repository string) (types.AuthConfig, bool, error) {
	file, err := config.LoadFromReader(bytes.NewReader(data))
	if err != nil {
		return types.AuthConfig{}, false, err
	}
	var names []string
	for part := repository; part != ""; part = part[:max(0, strings.LastIndexByte(part, '/'))] {
		names = append(names, registry+"/"+part)
	}
	names = append(names, registry, "https://"+registry, "https://"+registry+"/v1/", "https://"+registry+"/v2/")
	if registry == "docker.io" {
		names = append(names, "index.docker.io", "https://index.docker.io/v1/")
	}
	for _, name := range names {
		if a := file.AuthConfigs[name]; a.Username != "" || a.IdentityToken != "" {
			a.ServerAddress = ""
			return a, true, nil
		}
	}
	return types.AuthConfig{}, false, nil
}
