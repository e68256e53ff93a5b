package enginetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
)

// endsWith is the exit code of ender.
const endsWith = 7

// ender is a program that ends at once.
func ender() string {
	const at = 0x400000
	code := map[string]string{
		"amd64": "\xbf\x07\x00\x00\x00\xb8\x3c\x00\x00\x00\x0f\x05", // mov edi, 7; mov eax, exit; syscall
		"arm64": "\xe0\x00\x80\xd2\xa8\x0b\x80\xd2\x01\x00\x00\xd4", // mov x0, 7; mov x8, exit; svc 0
	}[runtime.GOARCH]
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: at + 120, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	size := uint64(120 + len(code))
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, header)
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: at, Filesz: size, Memsz: size, Align: 4096})
	return b.String() + code
}

// runs has an engine run a container. One that is installed and answers may still be on a machine whose kernel or
// cgroups let it run none.
func (e *engine) runs() error {
	l, err := makeLayer(e.dir, "ender", map[string]bool{}, func(l *layerWriter) { l.text("/ender", 0o755, ender()) })
	if err != nil {
		return err
	}
	const reference = "localhost/sandboxmcp-test:ender"
	from, to := io.Pipe()
	go func() { to.CloseWithError(archive(to, reference, []layer{l}, nil)) }()
	if err := load(e.url(), from); err != nil {
		return fmt.Errorf("load an image: %w", err)
	}
	socket := strings.TrimPrefix(e.url(), "unix://")
	// Podman's own limits may be more than we have.
	const order = `{"Image": "` + reference + `", "Entrypoint": ["/ender"], "HostConfig": {"NetworkMode": "none",
		"Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 1024}, {"Name": "nproc", "Soft": 4096, "Hard": 4096}]}}`
	text, err := api(socket, "POST", "/v1.40/containers/create", strings.NewReader(order))
	var c struct {
		ID string `json:"Id"`
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return err
	}
	defer api(socket, "DELETE", "/v1.40/containers/"+c.ID+"?force=1", nil)
	if _, err := api(socket, "POST", "/v1.40/containers/"+c.ID+"/start", nil); err != nil {
		return err
	}
	if text, err = api(socket, "POST", "/v1.40/containers/"+c.ID+"/wait", nil); err != nil {
		return err
	}
	var ended struct{ StatusCode int }
	if err := json.Unmarshal(text, &ended); err != nil || ended.StatusCode != endsWith {
		return fmt.Errorf("a container ended with %s, want exit code %d", text, endsWith)
	}
	return nil
}
