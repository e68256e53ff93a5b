package container

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// initBinary is the sandboxmcp binary that runs as PID 1.
type initBinary struct {
	path       string
	mu         sync.Mutex
	seedVolume string // the volume with the binary, once it exists
}

// machines are the architectures for which there is an init.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// findBinary checks that the program at path, or the running one, can start in any image: it must load no file of
// the image.
func findBinary(path, arch string) (*initBinary, error) {
	refuse := func(why string) error {
		return backends.Refuse("containers need a static sandboxmcp binary: "+why,
			"build it with CGO_ENABLED=0 GOOS=linux GOARCH=", arch, " and name it in containers.binary")
	}
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, refuse(err.Error())
		}
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, refuse("it is missing, or was replaced or removed since it started: " + err.Error())
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, refuse(err.Error())
	}
	if err := runsOn(path, arch); err != nil {
		return nil, refuse(fmt.Sprintf("%s %v", path, err))
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, refuse(err.Error())
	}
	if info.Mode().Perm()&0o005 != 0o005 {
		return nil, backends.Refuse(path+" can't be run by the unprivileged user of a container", remedy.Command.With("chmod 755 "+path))
	}
	return &initBinary{path: path}, nil
}

// StaticProgram returns the program at path, or the running one, and its architecture, if it starts in any image.
func StaticProgram(path string) (file, arch string, err error) {
	for _, arch = range []string{runtime.GOARCH, "amd64", "arm64"} {
		b, failed := findBinary(path, arch)
		if failed == nil {
			return b.path, arch, nil
		}
		err = cmp.Or(err, failed)
	}
	return "", "", err
}

// runsOn returns the reason why a program can't run by itself on Linux and an architecture.
func runsOn(path, arch string) error {
	f, err := elf.Open(path)
	if err != nil {
		return errors.New("is not a program for Linux")
	}
	defer f.Close()
	if want, known := machines[arch]; !known || f.Machine != want {
		return fmt.Errorf("is for %v, and the engine's machine is %s", f.Machine, arch)
	}
	if f.OSABI != elf.ELFOSABI_NONE && f.OSABI != elf.ELFOSABI_LINUX || f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return errors.New("is not a program for Linux")
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("is linked dynamically, and would load the image's C library before it is contained")
		}
	}
	return nil
}

// seedVolume returns a volume that holds the binary as "init", made on the engine's machine once for each version of
// the binary. Volumes of older versions stay: other servers may use them.
func (b *Backend) seedVolume(ctx context.Context, s *engineState, image Image) (volume string, err error) {
	s.binary.mu.Lock()
	defer s.binary.mu.Unlock()
	if s.binary.seedVolume != "" {
		return s.binary.seedVolume, nil
	}
	f, err := os.Open(s.binary.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", s.binary.path, err)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	volume = "sandboxmcp-init-" + sum[:24]
	archive := seedArchive(f, size)
	defer archive.Close()
	if err := b.engine.Seed(ctx, volume, map[string]string{LabelSeed: sum}, archive, image.ID); err != nil {
		return "", fmt.Errorf("copy sandboxmcp into volume %s: %w", volume, err)
	}
	s.binary.seedVolume = volume
	return volume, nil
}

// forgetSeed makes the next container look up the volume again.
func (s *engineState) forgetSeed() {
	if b := s.binary; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seedVolume = ""
	}
}

// SeedEnd is the last file of an archive for [Engine.Seed]: a volume without it is incomplete.
const SeedEnd = ".sandboxmcp-whole"

// seedArchive returns a tar archive with one program.
func seedArchive(program io.Reader, size int64) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		header := func(kind byte, name string, mode, size int64) error {
			return t.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR})
		}
		// An image can have a volume at the socket's path, for which the engine needs a directory.
		err := cmp.Or(header(tar.TypeDir, "conn/", 0o555, 0), header(tar.TypeReg, "init", 0o555, size))
		if err == nil {
			if _, err = io.CopyN(t, program, size); err == io.EOF {
				err = io.ErrUnexpectedEOF // otherwise the archive would seem complete
			}
		}
		if err == nil {
			err = cmp.Or(header(tar.TypeReg, SeedEnd, 0o444, 0), t.Close())
		}
		w.CloseWithError(err)
	}()
	return r
}
