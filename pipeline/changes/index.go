package changes

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// maxIndex bounds the index files that are compared, in bytes.
const maxIndex = 64 << 20

// isIndex reports whether a path may be a repository's index, which any "git status" rewrites.
func isIndex(name string) bool {
	return strings.Contains("/"+name, "/.git/") && strings.HasSuffix(name, "/index")
}

// sameIndex reports whether two indexes of git list the same files with the same content. The rest of an index, such as
// file times, describes files on one machine, and git checks it again. sameIndex reads versions 2 and 3, with SHA-1.
func sameIndex(a, b []byte) bool {
	x, okX := indexed(a)
	y, okY := indexed(b)
	return okX && okY && bytes.Equal(x, y)
}

// indexed returns the names, modes, flags and contents of an index. See gitformat-index(5).
func indexed(b []byte) (files []byte, ok bool) {
	const head, seen, fixed = 12, 40, 62 // 24 bytes of times and numbers, the mode, 12 more, SHA-1, and flags
	if len(b) < head || string(b[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version != 2 && version != 3 {
		return nil, false
	}
	at := head
	for range count {
		if len(b)-at < fixed {
			return nil, false
		}
		e := b[at:]
		size := fixed
		if flags := binary.BigEndian.Uint16(e[60:]); version == 3 && flags&0x4000 != 0 {
			size += 2
		}
		end := bytes.IndexByte(e[min(size, len(e)):], 0)
		if end < 0 {
			return nil, false
		}
		files = append(files, e[24:28]...)
		files = append(files, e[seen:size+end+1]...)
		at += (size + end + 8) &^ 7 // 1 to 8 zeros
		if at > len(b) {
			return nil, false
		}
	}
	const trailer, extension = 20, 8 // SHA-1; a name and a size
	for rest := b[at:]; ; rest = rest[extension+binary.BigEndian.Uint32(rest[4:]):] {
		if len(rest) == trailer {
			return files, true
		}
		// An extension whose name begins with a small letter changes the list of files: a shared index holds the
		// others.
		if len(rest) < extension+trailer || rest[0] < 'A' || rest[0] > 'Z' ||
			uint64(binary.BigEndian.Uint32(rest[4:])) > uint64(len(rest)-extension-trailer) {
			return nil, false
		}
	}
}
