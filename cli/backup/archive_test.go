package backup

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// forgeArchive builds an archive from a header, the entries that write adds, and a manifest.
func forgeArchive(t *testing.T, h archiveHeader, write func(*archive)) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	a, err := newArchive(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	write(a)
	if _, err := a.finish(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// addText adds a file.
func addText(t *testing.T, a *archive, name, content string) {
	t.Helper()
	err := a.add(name, int64(len(content)), 0o777, time.Unix(1e9, 0),
		func(w io.Writer) error { _, err := io.WriteString(w, content); return err })
	if err != nil {
		t.Fatal(err)
	}
}

// addRaw adds an entry without checks and lists it in the manifest as far as possible.
func addRaw(t *testing.T, a *archive, h tar.Header, content string) {
	t.Helper()
	if err := a.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(a, content); err != nil {
		t.Fatal(err)
	}
}

// rotatedLog is the common name of the files that continue the log, without their numbers.
const rotatedLog = logName + "-files/" + logName

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const run = "runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/"
	files := map[string]string{
		logName: "log", rotatedLog + ".2": "log", "vault.key": "key", run + "run.json": "{}",
		run + "files/a b/" + strings.Repeat("n", 200) + "\n\xff\u00fc": strings.Repeat("x", 100_000), run + "files/" + strings.Repeat("d/", 100) +
			"deep": "",
	}
	b := forgeArchive(t, archiveHeader{Format: format, ID: "1"}, func(a *archive) {
		for name, content := range files {
			addText(t, a, name, content)
		}
	})
	h, m, err := extract(b, root)
	if err != nil || h.ID != "1" || m.Files != len(files) {
		t.Fatalf("%+v, %+v, %v", h, m, err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		info, _ := os.Stat(filepath.Join(dir, name))
		mode := fs.FileMode(0o600)
		if strings.HasPrefix(name, "runs/") {
			mode = 0o755
		}
		if err != nil || string(got) != want || info.Mode() != mode || !info.ModTime().Equal(time.Unix(1e9, 0)) {
			t.Errorf("%q: %d bytes, %v, %v", name, len(got), info, err)
		}
	}
}

// TestExtractRefuses extracts archives that an attacker with the recipient could have written.
func TestExtractRefuses(t *testing.T) {
	file := func(name string) func(*testing.T, *archive) {
		return func(t *testing.T, a *archive) {
			addRaw(t, a, tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1}, "x")
		}
	}
	entry := func(kind byte, name, to string) func(*testing.T, *archive) {
		return func(t *testing.T, a *archive) {
			addRaw(t, a, tar.Header{Typeflag: kind, Name: name, Linkname: to, Devmajor: 1, Devminor: 3}, "")
		}
	}
	for name, tt := range map[string]struct {
		write func(*testing.T, *archive)
		want  string
	}{
		"the directory above":  {file("../escaped"), "unexpected entry"},
		"a path from the root": {file("/tmp/escaped"), "unexpected entry"},
		"through a directory":  {file("runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/../../../escaped"), "unexpected entry"},
		"a name of no part":    {file("authorized_keys"), "unexpected entry"},
		"a file of a cache":    {file("packages/x"), "unexpected entry"},
		"a journal of SQLite":  {file(logName + "-wal"), "unexpected entry"},
		"not a clean name":     {file("keys//a.pub"), "unexpected entry"},
		"below keys":           {file("keys/a/b.pub"), "unexpected entry"},
		"a link":               {entry(tar.TypeSymlink, "vault.key", "/etc/shadow"), "is not a file"},
		"a link to write through": {func(t *testing.T, a *archive) {
			entry(tar.TypeSymlink, "history", "/tmp")(t, a)
			file("history/escaped")(t, a)
		}, "is not a file"},
		"a hard link":     {entry(tar.TypeLink, "vault.key", "tokens.json"), "is not a file"},
		"a device":        {entry(tar.TypeChar, "vault.key", ""), "is not a file"},
		"a FIFO":          {entry(tar.TypeFifo, "vault.key", ""), "is not a file"},
		"a directory":     {entry(tar.TypeDir, "keys", ""), "is not a file"},
		"a file twice":    {func(t *testing.T, a *archive) { addText(t, a, "vault.key", "1"); addText(t, a, "vault.key", "2") }, "file exists"},
		"below a file":    {func(t *testing.T, a *archive) { addText(t, a, "history", "1"); addText(t, a, "history/x", "2") }, "file exists"},
		"not in manifest": {func(t *testing.T, a *archive) { file("vault.key")(t, a) }, "not those of its manifest"},
		"another sum": {func(t *testing.T, a *archive) {
			addText(t, a, "vault.key", "1")
			a.sums.lines.Reset()
		}, "not those of its manifest"},
		"a manifest before the end": {func(t *testing.T, a *archive) {
			addText(t, a, "vault.key", "1")
			if err := a.writeJSON(manifestName, a.sums.total()); err != nil {
				t.Fatal(err)
			}
		}, "something follows its manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			b := forgeArchive(t, archiveHeader{Format: format}, func(a *archive) { tt.write(t, a) })
			wantRefused(t, b, tt.want)
		})
	}
	for name, b := range map[string]*bytes.Buffer{
		"nothing":        {},
		"no archive":     bytes.NewBufferString("hello"),
		"no header":      bytes.NewBuffer(make([]byte, 1024)),
		"a newer format": forgeArchive(t, archiveHeader{Format: format + 1, Version: "v9"}, func(*archive) {}),
		"more behind": bytes.NewBuffer(append(forgeArchive(t, archiveHeader{Format: format}, func(*archive) {}).Bytes(),
			make([]byte, 1<<20)...)),
		"an end before the manifest": func() *bytes.Buffer {
			var b bytes.Buffer
			a, _ := newArchive(&b, archiveHeader{Format: format})
			addText(t, a, "vault.key", "1")
			a.Close()
			return &b
		}(),
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, b, "") })
	}
	// archive/tar does not write sparse files, so these are headers of other writers. 4 bytes of archive would become a
	// terabyte of zeros.
	t.Run("holes, as of PAX", func(t *testing.T) {
		b := forgeArchive(t, archiveHeader{Format: format}, func(a *archive) { addText(t, a, "keys/a.pub", "1\n0\n") })
		text := b.Bytes()
		records := "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n37 GNU.sparse.realsize=1099511627776\n"
		at := bytes.Index(text, []byte("keys/a.pub"))
		wantRefused(t, bytes.NewBuffer(slices.Concat(text[:at], paxHeader(records), text[at:])), "")
	})
	t.Run("holes, as of GNU", func(t *testing.T) {
		b := forgeArchive(t, archiveHeader{Format: format}, func(a *archive) { addText(t, a, "keys/a.pub", "1") })
		text := b.Bytes()
		at := bytes.Index(text, []byte("keys/a.pub"))
		block := text[at : at+512]
		block[156] = 'S'
		copy(block[257:265], "ustar  \x00")
		copy(block[483:495], "20000000000\x00") // the size with holes
		fixChecksum(block)
		wantRefused(t, b, "")
	})
}

// paxHeader returns an extended header for the entry after it.
func paxHeader(records string) []byte {
	block := make([]byte, 1024)
	copy(block, "PaxHeaders.0/x")
	copy(block[100:], "0000600\x00")
	copy(block[124:], fmt.Sprintf("%011o\x00", len(records)))
	copy(block[136:], "00000000000\x00")
	block[156] = 'x'
	copy(block[257:], "ustar\x0000")
	fixChecksum(block[:512])
	copy(block[512:], records)
	return block
}

func fixChecksum(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, c := range block {
		sum += int(c)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

func wantRefused(t *testing.T, b *bytes.Buffer, want string) {
	t.Helper()
	above := t.TempDir()
	dir := filepath.Join(above, "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, _, err = extract(b, root); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	t.Log(err)
	if entries, _ := os.ReadDir(above); len(entries) != 1 {
		t.Errorf("something is outside: %v", entries)
	}
	if _, err := os.Stat("/tmp/escaped"); err == nil {
		t.Error("something is outside")
	}
	size := int64(0)
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		} else if err == nil && !info.IsDir() {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return nil
	})
	if size > 1<<20 {
		t.Errorf("%d bytes were extracted", size)
	}
}

// TestParts checks that each name matches one row.
func TestParts(t *testing.T) {
	for name, want := range map[string]bool{
		logName: true, logName + "-files": true, rotatedLog + ".17": true, logName + "-checkpoint": true, logName + "-owed": true,
		"keys/signing.key": true, "keys/.spare": true, "vault.db": true,
		"vault.key": true, "tokens.json": true, "runs": true, "history/python": true,
		logName + "-wal": false, logName + "-acknowledged": false, rotatedLog + ".2-shm": false, "vault.db-journal": false,
		"vault.key.next": false, "tmp": false, "keys/.new-key-1": false, ".new-audit-1": false,
		logName + "-running": false, "packages": false, "server.log": false, "start.lock": false, "keys/lock": false,
	} {
		if p := findPart(name); p == nil || p.included != want {
			t.Errorf("%s: %+v, want included %v", name, p, want)
		}
	}
	for _, name := range []string{"x", "keys/x/signing.key", logName + "x", "runs/x", "vault.db/x"} {
		if isIncluded(name) {
			t.Errorf("%s is included", name)
		}
	}
}
