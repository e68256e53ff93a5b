package container

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// elfFile returns a file with only the headers of a program for amd64.
func elfFile(dynamic bool) []byte {
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if dynamic {
		segment.Type = uint32(elf.PT_INTERP)
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, header)
	binary.Write(&b, binary.LittleEndian, segment)
	return b.Bytes()
}

func TestFindBinary(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name    string
		content []byte
		mode    os.FileMode
		arch    string
		want    string // in the refusal; "" for none
	}{
		{"static", elfFile(false), 0o755, "amd64", ""},
		{"dynamic", elfFile(true), 0o755, "amd64", "linked dynamically"},
		{"of another machine", elfFile(false), 0o755, "arm64", "EM_X86_64"},
		{"of a machine that we are not made for", elfFile(false), 0o755, "s390x", "s390x"},
		{"a script", []byte("#!/bin/sh\n"), 0o755, "amd64", "is not a program"},
		{"private", elfFile(false), 0o700, "amd64", "unprivileged user"},
	} {
		path := filepath.Join(dir, tt.name)
		if err := os.WriteFile(path, tt.content, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, err := findBinary(path, tt.arch)
		if tt.want == "" && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var refusal *backends.Refusal
		if tt.want != "" && (!errors.As(err, &refusal) || refusal.Remedy.IsZero() || !strings.Contains(refusal.Reason, tt.want)) {
			t.Errorf("%s: got %v, want %q and a remedy", tt.name, err, tt.want)
		}
	}
	if _, err := findBinary(filepath.Join(dir, "nothing"), "amd64"); err == nil || !strings.Contains(err.Error(), "replaced or removed") {
		t.Errorf("not there: got %v", err)
	}
}

// TestArchived checks that the end marker comes last: an engine that stops early has not received it.
func TestArchived(t *testing.T) {
	var names []string
	r := tar.NewReader(seedArchive(strings.NewReader("program"), 7))
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if want := []string{"conn/", "init", SeedEnd}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	all, err := io.ReadAll(seedArchive(strings.NewReader("prog"), 7))
	if err == nil || bytes.Contains(all, []byte(SeedEnd)) {
		t.Errorf("a program that is cut: %v, with its end: %v", err, bytes.Contains(all, []byte(SeedEnd)))
	}
}
