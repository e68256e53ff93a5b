package enginetest

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// hostileConfig returns an image configuration that would break a sandbox, or break out of one, if it had any
// effect. backendtest searches for the word in its variables.
func hostileConfig() map[string]any {
	const word = "/nonexistent/canary-of-the-host-environment"
	return map[string]any{
		"User":        "0:0",
		"Entrypoint":  []string{"/bin/false"},
		"Cmd":         []string{"/bin/sh", "-c", "exit 99"},
		"WorkingDir":  "/image/elsewhere",
		"StopSignal":  "SIGUSR1",
		"OnBuild":     []string{"RUN exit 1"},
		"ArgsEscaped": true,
		"Volumes": map[string]any{"/image/volume": map[string]any{}, "/workspace": map[string]any{}, "/tmp": map[string]any{},
			"/.sandboxmcp/conn": map[string]any{}, "/var/volume with space": map[string]any{}},
		"ExposedPorts": map[string]any{"80/tcp": map[string]any{}, "53/udp": map[string]any{}},
		"Healthcheck":  map[string]any{"Test": []string{"CMD-SHELL", "touch /tmp/checked /workspace/checked"}, "Interval": 1_000_000_000},
		"Labels":       map[string]string{"sandboxmcp.instance": "forged", "sandboxmcp.state": "forged", "sandboxmcp.id": "forged"},
		"Env": []string{"PATH=/image/volume", "LD_PRELOAD=" + word, "LD_LIBRARY_PATH=" + word, "LD_AUDIT=" + word, "BASH_ENV=" + word,
			"ENV=" + word,
			"PYTHONPATH=" + word, "PYTHONHOME=" + word, "PYTHONSTARTUP=" + word, "NODE_OPTIONS=--require=" + word, "HOME=" + word, "TMPDIR=" + word,
			"LANG=C", "LC_ALL=C", "GODEBUG=gctrace=1", "GOTRACEBACK=crash", "GOMEMLIMIT=1KiB", "GOMAXPROCS=1", "SSL_CERT_FILE=" + word,
			"http_proxy=http://canary-of-the-host-environment:1/",
			"SANDBOXMCP_CANARY=canary-of-the-host-environment", "HOSTNAME=canary-of-the-host-environment",
			"container=canary-of-the-host-environment"},
	}
}

// separateLayers are the layers that are built separately, on top of others or of nothing.
func separateLayers() map[string]func(*layerWriter) {
	return map[string]func(*layerWriter){"volume": addVolumePrograms, "setuid": addSetuidPrograms, "links": addLinks, "full": addManyFiles,
		"bare": addBarePython, "own": addTestBinary}
}

// addTestBinary adds this test binary.
func addTestBinary(l *layerWriter) {
	path, err := static()
	if path == "" {
		path = "/proc/self/exe"
	}
	if err != nil {
		l.err = err
		return
	}
	l.writeDir("/.sandboxmcp", 0o755)
	l.writeDir("/.sandboxmcp/conn", 0o755)
	l.copyProgram("/.sandboxmcp/init", path, 0o555, nil)
}

// addVolumePrograms adds programs in directories that the hostile configuration declares as volumes.
func addVolumePrograms(l *layerWriter) {
	for _, dir := range []string{"/image", "/image/volume", "/image/elsewhere", "/var/volume with space", "/.sandboxmcp",
		"/.sandboxmcp/conn"} {
		l.writeDir(dir, 0o777)
		l.writeText(dir+"/left", 0o4755, "#!/bin/sh\necho a program of the image\n")
	}
	l.writeText("/.dockerenv", 0o644, "")
}

// addSetuidPrograms adds programs that would run as root if a sandbox let them gain privileges.
func addSetuidPrograms(l *layerWriter) {
	// struct vfs_cap_data, version 2: CAP_CHOWN and CAP_DAC_OVERRIDE, permitted and effective. A program with
	// capabilities that an engine drops for all containers would not start at all.
	var caps []byte
	for _, word := range []uint32{0x02000001, 0x3, 0, 0, 0} {
		caps = binary.LittleEndian.AppendUint32(caps, word)
	}
	for _, path := range findPrograms("id", "bash", "cat") {
		l.copyProgram("/usr/local/bin/su-"+filepath.Base(path), path, 0o6755, nil)
	}
	for _, path := range findPrograms("id", "bash", "chown") {
		l.copyProgram("/usr/local/bin/cap-"+filepath.Base(path), path, 0o755, map[string]string{"SCHILY.xattr.security.capability": string(caps)})
	}
	l.writeText("/etc/sealed", 0o600, "only root reads this\n")
	l.writeEntry(&tar.Header{Typeflag: tar.TypeChar, Name: "/srv/null", Mode: 0o666, Devmajor: 1, Devminor: 3}, nil)
	l.writeEntry(&tar.Header{Typeflag: tar.TypeChar, Name: "/srv/kmsg", Mode: 0o666, Devmajor: 1, Devminor: 11}, nil)
}

// copyProgram copies a program of this machine to another name.
func (l *layerWriter) copyProgram(name, from string, mode int64, pax map[string]string) {
	f, err := os.Open(from)
	if err != nil {
		l.err = err
		return
	}
	defer f.Close()
	size, _ := f.Seek(0, io.SeekEnd)
	f.Seek(0, io.SeekStart)
	l.writeEntry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, PAXRecords: pax}, f)
}

// addLinks adds links where engines mount: a mount that follows one ends up elsewhere.
func addLinks(l *layerWriter) {
	l.writeDir("/image", 0o755)
	l.writeDir("/image/elsewhere", 0o777)
	for name, to := range map[string]string{
		"/workspace": "/image/elsewhere", "/tmp": "/image/elsewhere", "/run": "/image/elsewhere", "/.sandboxmcp": "/image/elsewhere",
		"/etc/resolv.conf": "../run/resolver/stub.conf", "/etc/hosts": "/image/elsewhere/hosts", "/etc/hostname": "/image/elsewhere/hostname",
		"/etc/ssl/certs/ca-certificates.crt": "/image/elsewhere/bundle", "/etc/passwd": "/image/elsewhere/passwd", "/data": "/../../../../tmp",
	} {
		l.writeLink(name, to)
	}
	l.writeText("/image/elsewhere/passwd", 0o644, "root:x:0:0:root:/root:/bin/bash\n")
}

// addManyFiles adds so many files at the workspace's path that nobody can overlook them.
func addManyFiles(l *layerWriter) {
	l.writeDir("/workspace", 0o777)
	for i := range 1000 {
		l.writeText(fmt.Sprintf("/workspace/%d", i), 0o666, "")
	}
}

// addBarePython adds a Python and its libraries.
func addBarePython(l *layerWriter) {
	l.without = "/etc"
	standardPython(l)
}

// HostileImages runs a program in each image whose files interfere, with a backend that uses that image for all
// languages.
func HostileImages(t *testing.T, engineURL string, newEngine func() container.Engine) {
	for _, c := range []struct {
		name, image, language string
		args                  []string
		want                  string
	}{
		{"set-user-ID programs are ordinary ones", Setuid, "shell", []string{"bash", "-c",
			`[ "$(su-id -u)" = "$(id -u)" ] && echo same; su-cat /etc/sealed 2>/dev/null; su-bash -p -c '[ $EUID != 0 ] && echo ordinary'`},
			"same\nordinary\n"},
		{"so are those with capabilities", Setuid, "shell", []string{"bash", "-c",
			// A kernel may refuse to run these programs at all.
			`cap-chown 0 /workspace 2>/dev/null && echo changed; cap-bash -c 'grep CapEff /proc/self/status' 2>/dev/null | grep -v 0000000000000000; echo done`}, "done\n"},
		{"devices of the image", Setuid, "shell", []string{"bash", "-c",
			`head -c 1 /srv/kmsg 2>/dev/null; echo x 2>/dev/null >/srv/null; echo done`}, "done\n"},
		{"links where we mount", Links, "shell", []string{"bash", "-c",
			`cd /workspace && echo one >file && echo two >/tmp/other && cat /workspace/file /tmp/other; id -un >/dev/null && echo named`},
			"one\ntwo\nnamed\n"},
		{"a full workspace", Full, "shell", []string{"bash", "-c", "ls /workspace | wc -l"}, "0\n"},
		{"nothing but Python", Bare, "python", []string{"python", "-c",
			"import os, tempfile; tempfile.TemporaryFile().write(b'x'); print(os.getcwd(), os.getuid() != 0)"}, "/workspace True\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reference := Image(t, engineURL, c.image)
			b := container.New(newEngine(), container.Config{Images: map[string]string{"python": reference, "shell": reference, "node": reference},
				Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"), Binary: InitBinary(t)})
			defer b.Close()
			s, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: c.language,
				Limits: backends.Limits{Wall: 20 * time.Second}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var out, errs bytes.Buffer
			r, err := s.Exec(t.Context(), backends.Command{Args: c.args}, backends.Streams{Stdout: &out, Stderr: &errs})
			if err != nil || out.String() != c.want {
				t.Errorf("ended %s, stdout %q, want %q, stderr %q, %v", r.Ended, out.String(), c.want, errs.String(), err)
			}
		})
	}
}
