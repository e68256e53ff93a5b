package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// ServerUser is the user of the server's image, who owns nothing but the state directory.
const ServerUser = 65532

// Server is the image of a server: this program alone, certificates, and no shell. It is also the image of the setting
// kubernetes.image.
type Server struct {
	Binary       string // file: static, for Linux
	Arch         string // GOARCH of it
	Certificates []byte // of the authorities that it trusts, as PEM
}

// serverEnviron are the variables of the image.
var serverEnviron = []string{"PATH=/", "HOME=/state", "XDG_STATE_HOME=/state"}

// containerfile has an engine make the image of the layer beside it.
var containerfile = fmt.Sprintf("FROM scratch\nADD layer.tar /\nENV %s %s %s\nUSER %d:%[4]d\nWORKDIR /state\nENTRYPOINT [\"/sandboxmcp\"]\n",
	serverEnviron[0], serverEnviron[1], serverEnviron[2], ServerUser)

// WriteContext writes a build context for an engine.
func (s Server) WriteContext(w io.Writer) error {
	_, size, err := s.measure()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := writeFile(t, "Containerfile", 0o644, []byte(containerfile)); err != nil {
		return err
	}
	if err := t.WriteHeader(header("layer.tar", 0o644, size)); err != nil {
		return err
	}
	if err := s.writeLayer(t); err != nil {
		return err
	}
	return t.Close()
}

// Save writes the image as `docker save` does, which engines, nodes and tools for registries load. It is the same, byte for
// byte, for the same parts.
func (s Server) Save(w io.Writer, reference string) error {
	sum, size, err := s.measure()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": s.Arch, "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{"User": fmt.Sprintf("%d:%[1]d", ServerUser), "Env": serverEnviron, "Entrypoint": []string{"/sandboxmcp"}, "WorkingDir": "/state"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum}},
	})
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%x", sha256.Sum256(config))
	manifest, err := json.Marshal([]any{map[string]any{"Config": id + ".json", "RepoTags": []string{reference}, "Layers": []string{sum + "/layer.tar"}}})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := writeFile(t, id+".json", 0o644, config); err != nil {
		return err
	}
	if err := t.WriteHeader(header(sum+"/layer.tar", 0o644, size)); err != nil {
		return err
	}
	if err := s.writeLayer(t); err != nil {
		return err
	}
	if err := writeFile(t, "manifest.json", 0o644, manifest); err != nil {
		return err
	}
	return t.Close()
}

// measure returns the digest and the size of the layer.
func (s Server) measure() (sum string, size int64, err error) {
	hash, count := sha256.New(), new(counter)
	err = s.writeLayer(io.MultiWriter(hash, count))
	return hex.EncodeToString(hash.Sum(nil)), int64(*count), err
}

// counter counts bytes.
type counter int64

// Write implements [io.Writer].
func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// writeLayer writes the image's files.
func (s Server) writeLayer(w io.Writer) error {
	binary, err := os.Open(s.Binary)
	if err != nil {
		return err
	}
	defer binary.Close()
	info, err := binary.Stat()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, dir := range []struct {
		name string
		mode int64
		uid  int
	}{{".sandboxmcp/", 0o755, 0}, {"etc/", 0o755, 0}, {"etc/ssl/", 0o755, 0}, {"etc/ssl/certs/", 0o755, 0}, {"state/", 0o700, ServerUser}, {"tmp/", 0o1777, 0}} {
		h := header(dir.name, dir.mode, 0)
		h.Typeflag, h.Uid, h.Gid = tar.TypeDir, dir.uid, dir.uid
		if err := t.WriteHeader(h); err != nil {
			return err
		}
	}
	users := fmt.Sprintf("root:x:0:0:root:/:/\nsandboxmcp:x:%d:%[1]d::/state:/\n", ServerUser)
	for _, file := range []struct{ name, content string }{
		{"etc/passwd", users}, {"etc/group", fmt.Sprintf("root:x:0:\nsandboxmcp:x:%d:\n", ServerUser)}, {"etc/ssl/certs/ca-certificates.crt", string(s.Certificates)},
	} {
		if err := writeFile(t, file.name, 0o444, []byte(file.content)); err != nil {
			return err
		}
	}
	if err := t.WriteHeader(header("sandboxmcp", 0o555, info.Size())); err != nil {
		return err
	}
	if _, err := io.Copy(t, binary); err != nil {
		return err
	}
	h := header(".sandboxmcp/init", 0o555, 0) // the name under which it is PID 1 of a pod
	h.Typeflag, h.Linkname = tar.TypeLink, "sandboxmcp"
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	return t.Close()
}

func header(name string, mode, size int64) *tar.Header {
	return &tar.Header{Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
}

func writeFile(t *tar.Writer, name string, mode int64, content []byte) error {
	if err := t.WriteHeader(header(name, mode, int64(len(content)))); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}
