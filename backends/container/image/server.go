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

// ServerUser is the user of the server's image, who owns only the state directory.
const ServerUser = 65532

// Server is the image of a server: this program and certificates, without a shell. It is also the image for the
// setting kubernetes.image.
type Server struct {
	Binary       string // path of a static program for Linux
	Arch         string // its GOARCH
	Certificates []byte // of trusted authorities, as PEM
}

// serverEnviron are the image's variables.
var serverEnviron = []string{"PATH=/", "HOME=/state", "XDG_STATE_HOME=/state"}

// containerfile makes an engine build the image from the layer next to it.
var containerfile = fmt.Sprintf("FROM scratch\nADD layer.tar /\nENV %s %s %s\nUSER %d:%[4]d\nWORKDIR /state\nENTRYPOINT "+
	"[\"/sandboxmcp\"]\n",
	serverEnviron[0], serverEnviron[1], serverEnviron[2], ServerUser)

// WriteContext writes a build context for an engine.
func (s Server) WriteContext(w io.Writer) error {
	_, size, err := s.measure()
	if err != nil {
		return err
	}
	return s.write(w, "layer.tar", size, file{"Containerfile", []byte(containerfile)})
}

// Save writes the image in the format of `docker save`, which engines, nodes and registry tools load. Its bytes are
// reproducible.
func (s Server) Save(w io.Writer, reference string) error {
	sum, size, err := s.measure()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": s.Arch, "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{"User": fmt.Sprintf("%d:%[1]d", ServerUser), "Env": serverEnviron, "Entrypoint": []string{"/sandboxmcp"},
			"WorkingDir": "/state"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum}},
	})
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%x", sha256.Sum256(config))
	manifest, err := json.Marshal([]any{map[string]any{"Config": id + ".json", "RepoTags": []string{reference},
		"Layers": []string{sum + "/layer.tar"}}})
	if err != nil {
		return err
	}
	return s.write(w, sum+"/layer.tar", size, file{id + ".json", config}, file{"manifest.json", manifest})
}

// file is a file of an archive, readable by everybody.
type file struct {
	name    string
	content []byte
}

// write writes an archive of files, and of the layer under the name layer.
func (s Server) write(w io.Writer, layer string, size int64, files ...file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := writeFile(t, f, 0o644); err != nil {
			return err
		}
	}
	if err := t.WriteHeader(header(layer, 0o644, size)); err != nil {
		return err
	}
	if err := s.writeLayer(t); err != nil {
		return err
	}
	return t.Close()
}

// measure returns the digest and the size of the layer.
func (s Server) measure() (sum string, size int64, err error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(s.writeLayer(w)) }()
	hash := sha256.New()
	size, err = io.Copy(hash, r)
	return hex.EncodeToString(hash.Sum(nil)), size, err
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
	}{{".sandboxmcp/", 0o755, 0}, {"etc/", 0o755, 0}, {"etc/ssl/", 0o755, 0}, {"etc/ssl/certs/", 0o755, 0}, {"state/", 0o700, ServerUser},
		{"tmp/", 0o1777, 0}} {
		h := header(dir.name, dir.mode, 0)
		h.Typeflag, h.Uid, h.Gid = tar.TypeDir, dir.uid, dir.uid
		if err := t.WriteHeader(h); err != nil {
			return err
		}
	}
	users := fmt.Sprintf("root:x:0:0:root:/:/\nsandboxmcp:x:%d:%[1]d::/state:/\n", ServerUser)
	groups := fmt.Sprintf("root:x:0:\nsandboxmcp:x:%d:\n", ServerUser)
	for _, f := range []file{{"etc/passwd", []byte(users)}, {"etc/group", []byte(groups)},
		{"etc/ssl/certs/ca-certificates.crt", s.Certificates}} {
		if err := writeFile(t, f, 0o444); err != nil {
			return err
		}
	}
	if err := t.WriteHeader(header("sandboxmcp", 0o555, info.Size())); err != nil {
		return err
	}
	if _, err := io.Copy(t, binary); err != nil {
		return err
	}
	h := header(".sandboxmcp/init", 0o555, 0) // its name as PID 1 of a pod
	h.Typeflag, h.Linkname = tar.TypeLink, "sandboxmcp"
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	return t.Close()
}

func header(name string, mode, size int64) *tar.Header {
	return &tar.Header{Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
}

func writeFile(t *tar.Writer, f file, mode int64) error {
	if err := t.WriteHeader(header(f.name, mode, int64(len(f.content)))); err != nil {
		return err
	}
	_, err := t.Write(f.content)
	return err
}
