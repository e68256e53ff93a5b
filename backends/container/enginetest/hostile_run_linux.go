package enginetest

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// HostileImages runs a program in each image whose files interfere, with a backend of its own that uses that one
// image for all languages.
func HostileImages(t *testing.T, engineURL string, newEngine func() container.Engine) {
	for _, c := range []struct {
		name, image, language string
		args                  []string
		want                  string
	}{
		{"set-user-ID programs are ordinary ones", Setuid, "shell", []string{"bash", "-c",
			`[ "$(su-id -u)" = "$(id -u)" ] && echo same; su-cat /etc/sealed 2>/dev/null; su-bash -p -c '[ $EUID != 0 ] && echo ordinary'`}, "same\nordinary\n"},
		{"so are those with capabilities", Setuid, "shell", []string{"bash", "-c",
			// A kernel may refuse to run them at all.
			`cap-chown 0 /workspace 2>/dev/null && echo changed; cap-bash -c 'grep CapEff /proc/self/status' 2>/dev/null | grep -v 0000000000000000; echo done`}, "done\n"},
		{"devices of the image", Setuid, "shell", []string{"bash", "-c", `head -c 1 /srv/kmsg 2>/dev/null; echo x 2>/dev/null >/srv/null; echo done`}, "done\n"},
		{"links where we mount", Links, "shell", []string{"bash", "-c",
			`cd /workspace && echo one >file && echo two >/tmp/other && cat /workspace/file /tmp/other; id -un >/dev/null && echo named`}, "one\ntwo\nnamed\n"},
		{"a full workspace", Full, "shell", []string{"bash", "-c", "ls /workspace | wc -l"}, "0\n"},
		{"nothing but Python", Bare, "python", []string{"python", "-c",
			"import os, tempfile; tempfile.TemporaryFile().write(b'x'); print(os.getcwd(), os.getuid() != 0)"}, "/workspace True\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reference := Image(t, engineURL, c.image)
			b := container.New(newEngine(), container.Config{Images: map[string]string{"python": reference, "shell": reference, "node": reference},
				Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"), Binary: Binary(t)})
			defer b.Close()
			s, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: c.language, Limits: backends.Limits{Wall: 20 * time.Second}})
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
