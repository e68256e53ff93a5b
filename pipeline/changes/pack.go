package changes

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
)

// pack is a file with the contents of a set, each content once and after its hash and size: syncing one file takes less
// time than syncing thousands.
type pack struct {
	f    *os.File
	at   map[string]extent // by SHA-256
	end  int64
	max  int64 // bytes of the file
	head [headSize]byte
}

type extent struct{ start, size int64 }

const headSize = sha256.Size + 8

var errTooLarge = errors.New("larger than what may be stored")

// openPack opens a pack, or creates it if it is missing.
func openPack(name string, maxBytes int64) (*pack, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	p := &pack{f: f, at: map[string]extent{}, max: maxBytes}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for p.end+headSize <= info.Size() {
		if _, err := f.ReadAt(p.head[:], p.end); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		size := int64(binary.BigEndian.Uint64(p.head[sha256.Size:]))
		if size < 0 || size > info.Size()-p.end-headSize || p.head == [headSize]byte{} {
			break // a kill interrupted the last write: nothing depends on it
		}
		p.at[hex.EncodeToString(p.head[:sha256.Size])] = extent{p.end + headSize, size}
		p.end += headSize + size
	}
	return p, nil
}

func (p *pack) Close() error { return p.f.Close() }

// writer adds content whose size and hash are not known yet.
type writer struct {
	p    *pack
	size int64
}

// writer begins new content, which is part of the pack only once it is committed.
func (p *pack) writer() (*writer, error) {
	_, err := p.f.WriteAt(make([]byte, headSize), p.end)
	return &writer{p: p}, err
}

func (w *writer) Write(b []byte) (int, error) {
	if w.size+int64(len(b)) > w.p.room() {
		return 0, errTooLarge
	}
	n, err := w.p.f.WriteAt(b, w.p.end+headSize+w.size)
	w.size += int64(n)
	return n, err
}

// room returns the maximum size of the next content in bytes.
func (p *pack) room() int64 { return p.max - p.end - headSize }

// commit adds the written content under its hash.
func (w *writer) commit(sum string) error {
	p := w.p
	if _, has := p.at[sum]; has {
		return nil
	}
	raw, err := hex.DecodeString(sum)
	if err != nil {
		return err
	}
	copy(p.head[:], raw)
	binary.BigEndian.PutUint64(p.head[sha256.Size:], uint64(w.size))
	if _, err := p.f.WriteAt(p.head[:], p.end); err != nil {
		return err
	}
	p.at[sum] = extent{p.end + headSize, w.size}
	p.end += headSize + w.size
	return nil
}

// truncate removes the contents behind a former end.
func (p *pack) truncate(end int64) error {
	for sum, e := range p.at {
		if e.start >= end {
			delete(p.at, sum)
		}
	}
	p.end = end
	return p.f.Truncate(end)
}

// finish removes content that is not committed, and syncs the pack to the disk.
func (p *pack) finish() error { return errors.Join(p.f.Truncate(p.end), p.f.Sync()) }

// add stores a content from memory, and returns its state: kind, size and hash.
func (p *pack) add(content []byte) (State, error) {
	sum := sha256.Sum256(content)
	s := State{Kind: File, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	w, err := p.writer()
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.commit(s.SHA256)
	}
	return s, err
}

// has reports whether a content is stored. Empty content always is.
func (p *pack) has(s State) bool {
	_, has := p.at[s.SHA256]
	return has || s.Size == 0
}

// copy writes the content of a file to w, and fails if the stored content is damaged.
func (p *pack) copy(ctx context.Context, w io.Writer, s State) error {
	if !p.has(s) {
		return errors.New("its content is not stored")
	}
	e, sum := p.at[s.SHA256], sha256.New()
	_, err := io.Copy(io.MultiWriter(w, sum), reader{ctx, io.NewSectionReader(p.f, e.start, e.size)})
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != s.SHA256 {
		err = errors.New("its stored content is damaged")
	}
	return err
}

// read returns the content of a file in memory, or false if the content is larger than maxBytes or not stored.
func (p *pack) read(s State, maxBytes int64) ([]byte, bool) {
	if s.Kind != File || s.Size > maxBytes || !p.has(s) {
		return nil, s.Kind == ""
	}
	e := p.at[s.SHA256]
	b := make([]byte, e.size)
	_, err := p.f.ReadAt(b, e.start)
	return b, err == nil
}
