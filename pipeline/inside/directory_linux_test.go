package inside

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// archive is a tar of entries "name=content", "name/" and "name->target".
func archive(t *testing.T, entries ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Mode: 0o640}
		name, content, file := strings.Cut(e, "=")
		from, target, link := strings.Cut(e, "->")
		hard, to, linked := strings.Cut(e, "<-")
		switch h.Name = name; {
		case file:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
		case linked:
			h.Typeflag, h.Name, h.Linkname = tar.TypeLink, hard, to
		case link:
			h.Typeflag, h.Name, h.Linkname = tar.TypeSymlink, from, target
		case strings.HasSuffix(e, "/"):
			h.Typeflag = tar.TypeDir
		default:
			h.Typeflag = tar.TypeFifo
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, content)
	}
	w.Close()
	return b.Bytes()
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// TestDirectories: a directory comes in and out as a whole. A directory that is cut off, has another hash or would lead
// out of the workspace leaves nothing.
func TestDirectories(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	id := bare(t, p)
	whole := archive(t, "a=first", "d/", "d/b=second", "d/l->b", "up->d/b", "e/f/g=deep", "h<-a")
	u, _, err := pipeline.Do(t.Context(), p, WriteDirectory{
		Session: id, Path: "in", Content: bytes.NewReader(whole), SHA256: func() string { return strings.ToUpper(sumOf(whole)) },
	})
	if err != nil || u != (guest.Unpacked{Files: 4, Bytes: 15}) {
		t.Fatalf("got %+v, %v", u, err)
	}
	if got := ran(t, p, id, "sh", "-c", "cd in; cat a d/l up e/f/g h; stat -c %a a; ls -A"); got != "firstsecondseconddeepfirst640\na\nd\ne\nh\nup" {
		t.Errorf("got %q", got)
	}
	if n := pipelinetest.RowCounters(t, log)["session.file"]; n != 1 {
		t.Errorf("%d rows", n)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("of the host"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		content []byte
		sum     string
	}{
		"another hash":                {archive(t, "x=1"), sumOf(whole)},
		"half of it":                  {whole[:len(whole)-1600], ""},
		"half a file":                 {archive(t, "x="+strings.Repeat("x", 9999))[:4000], ""},
		"no tar":                      {[]byte(strings.Repeat("what is this?", 100)), ""},
		"up":                          {archive(t, "x=1", "../x=1"), ""},
		"absolute":                    {archive(t, "x=1", "/tmp/x=1"), ""},
		"a link up":                   {archive(t, "x=1", "l->../.."), ""},
		"an absolute link":            {archive(t, "x=1", "l->/etc/passwd"), ""},
		"through a link":              {archive(t, "x=1", "l->.", "l/y=1"), ""},
		"up behind a link":            {archive(t, "x=1", "m/", "m/l->..", "k->m/l/../.."), ""},
		"a link to what is outside":   {archive(t, "x=1", "y<-../../a"), ""},
		"a link of a link":            {archive(t, "x=1", "l->a", "y<-l"), ""},
		"a fifo":                      {archive(t, "x=1", "fifo"), ""},
		"a file where a directory is": {archive(t, "x/=1"[:2], "d=1"), ""},
	} {
		_, _, err := pipeline.Do(t.Context(), p, WriteDirectory{
			Session: id, Path: "in", Content: bytes.NewReader(tt.content), SHA256: func() string { return tt.sum },
		})
		if err == nil || strings.Contains(pipeline.PublicText(err), "inside the server") {
			t.Errorf("%s: %v", name, err)
		}
		if got := ran(t, p, id, "sh", "-c", "ls -A in | grep -v '^[adehu]' ; cat in/a; ls -A | grep -v in; ls -A /tmp"); got != "first" {
			t.Errorf("%s: left %q", name, got)
		}
	}
	ran(t, p, id, "sh", "-c", "cd in; rm -rf x; ln -s /etc/passwd p; ln -s ../.. q; ln -s "+outside+" r; mkfifo s; mkdir empty")
	content, err := ReadDirectory(t.Context(), p, "", id, "in")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var names []string
	for in := tar.NewReader(content); ; {
		h, err := in.Next()
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		names = append(names, h.Name+h.Linkname)
	}
	if got := strings.Join(names, " "); got != "a d/ d/b d/lb e/ e/f/ e/f/g empty/ h upd/b" {
		t.Errorf("got %q", got)
	}
	if _, err := ReadDirectory(t.Context(), p, "", id, "in/a"); guest.ReasonOf(err) != guest.NotDirectory {
		t.Errorf("a file: %v", err)
	}
	if got, _ := os.ReadFile(outside); string(got) != "of the host" {
		t.Errorf("the host's file holds %q", got)
	}
}

// TestExports: a session gets the exports of another session of its namespace, and nothing else.
func TestExports(t *testing.T) {
	p, log, memory := pipelinetest.NewReal(t, nil)
	from, to := bare(t, p), bare(t, p)
	ran(t, p, from, "sh", "-c", "mkdir -p exports/d; echo one >exports/one; chmod 700 exports/one; echo two >exports/d/two; ln -s ../../private exports/d/out; echo private >private; ln -s ~/private exports/link")
	for _, tt := range []struct{ path, to, see, want string }{
		{"one", "", "one", "one\n700"}, {"d", "got", "got/two", "two\n644"}, {"/d", "again", "again/two", "two\n644"},
	} {
		if u, _, err := pipeline.Do(t.Context(), p, CopyFiles{From: from, Path: tt.path, Session: to, To: tt.to}); err != nil || u.Files != 1 {
			t.Errorf("%s: %+v, %v", tt.path, u, err)
			continue
		}
		if got := ran(t, p, to, "sh", "-c", "cat "+tt.see+"; stat -c %a "+tt.see); got != tt.want {
			t.Errorf("%s: got %q", tt.path, got)
		}
	}
	if all := pipelinetest.Rows(t, log, "session.file"); len(all) != 3 || !strings.Contains(all[1], `"from":"`+from+`","from_path":"~/exports/d"`) {
		t.Errorf("the log does not say what was copied from where: %q", all)
	}
	for _, path := range []string{"../private", "../../etc/passwd", "none", "/../private"} {
		if _, _, err := pipeline.Do(t.Context(), p, CopyFiles{From: from, Path: path, Session: to}); err == nil {
			t.Errorf("%s was copied", path)
		}
	}
	other, err := pipelinetest.OpenSession(t.Context(), p, session.New{Bare: true, Home: "/home/user", Namespace: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []CopyFiles{{Namespace: "other", From: from, Path: "one", Session: other.ID}, {From: other.ID, Path: "one", Session: to}, {From: from, Path: "one", Session: other.ID}} {
		if _, _, err := pipeline.Do(t.Context(), p, q); err == nil {
			t.Errorf("%+v crosses namespaces", q)
		}
	}
	if got := ran(t, p, to, "ls", "-A", "got"); got != "two" {
		t.Errorf("got %q", got)
	}
	secret := "s3cret-value-" + strings.Repeat("x", 20)
	memory.Set("default", "TOKEN", []byte(secret))
	lease, err := p.Config.Vault.LeaseAll(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := session.FindSession(p, "", from)
	s.AddLease(lease)
	ran(t, p, from, "sh", "-c", "echo "+secret+" >exports/d/s")
	for _, path := range []string{"d", "d/s"} {
		if _, _, err := pipeline.Do(t.Context(), p, CopyFiles{From: from, Path: path, Session: to, To: "secret"}); err == nil {
			t.Errorf("%s has a secret, and was copied", path)
		}
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.Pause{Session: from}); err == nil {
		t.Error("a secret was kept with the files of a paused session")
	}
}

// TestNoAgent: a session whose sandbox can't show our agent runs code, and says that its files can't be had.
func TestNoAgent(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	info, _, err := pipeline.Do(t.Context(), p, session.New{Language: "shell", Profile: "landlock"})
	if err != nil {
		t.Skip(err)
	}
	id := info.ID
	if res := pipelinetest.Cell(t, p, id, "echo hi", nil); res.Stdout != "hi\n" {
		t.Errorf("got %+v", res)
	}
	_, _, err = pipeline.Do(t.Context(), p, WriteDirectory{Session: id, Path: "in", Content: bytes.NewReader(archive(t, "a=1"))})
	if _, reading := ReadDirectory(t.Context(), p, "", id, "in"); !errors.Is(err, session.ErrNoAgent) || !errors.Is(reading, session.ErrNoAgent) || strings.Contains(pipeline.PublicText(err), "inside the server") {
		t.Errorf("files in: %v; out: %v", err, reading)
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.New{Language: "shell", Profile: "landlock", Guest: true}); err == nil {
		t.Error("one whose files are needed was opened")
	}
	p2, _, _ := pipelinetest.NewReal(t, nil) // others show it without being asked
	s := pipelinetest.Open(t, p2, session.New{Language: "shell"})
	if _, _, err := pipeline.Do(t.Context(), p2, WriteDirectory{
		Session: s.ID, Path: "in", Content: bytes.NewReader(archive(t, "a=1")),
	}); err != nil {
		t.Error(err)
	}
}

// TestHostileArchives: a tar gives nobody rights, no device and no more room than there is, and the last of two files
// of one name counts.
func TestHostileArchives(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	info, _, err := pipeline.Do(t.Context(), p, session.New{Bare: true, Limits: pipeline.Bounds{Limits: backends.Limits{Disk: 16 << 20}}})
	if err != nil {
		t.Fatal(err)
	}
	id := info.ID
	made := func(all ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for n, h := range all {
			if h.Typeflag == tar.TypeReg {
				h.Size = 1
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				fmt.Fprint(w, n)
			}
		}
		w.Close()
		return b.Bytes()
	}
	file := func(name string, mode int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Uid: 0, Gid: 0, Uname: "root"}
	}
	unpack := func(content []byte) error {
		_, _, err := pipeline.Do(t.Context(), p, WriteDirectory{Session: id, Path: "in", Content: bytes.NewReader(content)})
		return err
	}
	if err := unpack(made(file("s", 0o6777), file("twice", 0o644), file("twice", 0o600), file("\x1b[31mred\n", 0o644))); err != nil {
		t.Fatal(err)
	}
	if got := ran(t, p, id, "sh", "-c", "cd in; stat -c %a s twice; cat twice; find . -perm /7000 -type f"); got != "777\n600\n2" {
		t.Errorf("got %q", got)
	}
	list, release, err := ListFiles(t.Context(), p, "", id, "in", 1)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v %v", list, err)
	}
	release()
	bad := map[string][]byte{
		"a device":        made(file("x", 0o644), tar.Header{Typeflag: tar.TypeChar, Name: "null", Mode: 0o666, Devmajor: 1, Devminor: 3}),
		"a block device":  made(file("x", 0o644), tar.Header{Typeflag: tar.TypeBlock, Name: "disk", Mode: 0o666, Devmajor: 8}),
		"a file as a dir": made(file("x", 0o644), file("x/y", 0o644)),
		"an unknown kind": made(file("x", 0o644), tar.Header{Typeflag: 'Z', Name: "z"}),
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "bomb")
	if err := errors.Join(os.WriteFile(name, nil, 0o644), os.Truncate(name, 1<<40)); err != nil {
		t.Fatal(err)
	}
	if bomb, err := exec.Command("tar", "-S", "-C", dir, "-c", "bomb").Output(); err == nil && len(bomb) < 1<<20 {
		bad["a file of holes"] = bomb
	} else {
		t.Logf("no tar that knows files with holes: %v", err)
	}
	for name, content := range bad {
		if err := unpack(content); err == nil {
			t.Errorf("%s was taken", name)
		}
		if got := ran(t, p, id, "sh", "-c", "ls -A in | grep -v -e '^s$' -e '^twice$' -e red; ls -A | grep -v '^in$'; true"); strings.TrimSpace(got) != "" {
			t.Errorf("%s left %q", name, got)
		}
	}
}
