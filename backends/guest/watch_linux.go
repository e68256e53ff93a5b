package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watching is the state of watching one directory.
type watching struct {
	dir       string
	recursive bool
	entries   bool
	events    *os.File // the inotify instance
	out       *json.Encoder
	dirs      map[int32]string // by watch: directories relative to dir
}

// changes are the changes of a directory that become events.
const changes = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_ATTRIB | unix.
	IN_ONLYDIR | unix.IN_DELETE_SELF

// serveWatch sends an empty event when it has begun, and then each event, until the client disconnects. For each
// byte of the request's body it sends an empty event after all earlier events.
func serveWatch(w http.ResponseWriter, r *http.Request) error {
	v := &watching{dir: r.FormValue("path"), recursive: r.FormValue("recursive") != "", entries: r.FormValue("entries") != "",
		dirs: map[int32]string{}}
	info, err := os.Stat(v.dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return errorf(NotDirectory, "path %s not a directory", v.dir)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return errorf(Failed, "watch %s: %v", v.dir, err)
	}
	v.events = os.NewFile(uintptr(fd), "inotify") // polled by the runtime
	defer v.events.Close()
	if err := v.add("."); err != nil {
		return err
	}
	control := http.NewResponseController(w)
	if _, err := w.Write([]byte("{}\n")); err != nil || control.Flush() != nil {
		return nil
	}
	asked := make(chan int) // number of bytes received
	go func() {
		for b := make([]byte, chunk); ; {
			n, err := r.Body.Read(b)
			if n > 0 {
				v.events.SetReadDeadline(time.Unix(1, 0)) // ends the read below
				select {
				case asked <- n:
				case <-r.Context().Done():
				}
			}
			if err != nil {
				break
			}
		}
		<-r.Context().Done()
		v.events.Close()
	}()
	v.out = json.NewEncoder(w)
	buf := make([]byte, chunk)
	for over := false; !over; {
		n, err := v.events.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			over, err = v.answerAsked(r.Context(), buf, asked)
		case err == nil:
			over, err = v.sendEvents(buf[:n])
		}
		if err != nil || control.Flush() != nil {
			return nil
		}
	}
	return nil
}

// answerAsked sends the pending events and then the requested empty ones. It does not wait for later events, since
// a program may change files without end.
func (v *watching) answerAsked(ctx context.Context, buf []byte, asked <-chan int) (over bool, err error) {
	conn, err := v.events.SyscallConn()
	if err != nil {
		return false, err
	}
	left := 0
	if e := conn.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); e != nil || err != nil {
		return false, errors.Join(e, err)
	}
	for left > 0 && !over {
		n := 0
		if e := conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) }); e != nil || err != nil {
			return false, errors.Join(e, err)
		}
		left -= n
		if over, err = v.sendEvents(buf[:n]); err != nil {
			return false, err
		}
	}
	v.events.SetReadDeadline(time.Time{})
	select {
	case n := <-asked:
		for ; n > 0 && err == nil; n-- {
			err = v.out.Encode(Event{})
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	return over, err
}

// add watches a directory, and all below it if v.recursive is set.
func (v *watching) add(dir string) error {
	var id int
	var err error
	conn, e := v.events.SyscallConn()
	if e != nil {
		return e
	}
	e = conn.Control(func(fd uintptr) { id, err = unix.InotifyAddWatch(int(fd), filepath.Join(v.dir, dir), changes) })
	switch {
	case e != nil:
		return e
	case err != nil:
		return errorf(toError(err).Reason, "watch %s: %v", filepath.Join(v.dir, dir), err)
	case len(v.dirs) >= maxWatches:
		return errorf(TooMany, "%s has more than %d directories", v.dir, maxWatches)
	}
	v.dirs[int32(id)] = dir
	if !v.recursive {
		return nil
	}
	below, err := os.ReadDir(filepath.Join(v.dir, dir))
	if err != nil {
		return nil // removed meanwhile
	}
	for _, d := range below {
		if d.IsDir() {
			if err := v.add(filepath.Join(dir, d.Name())); err != nil && toError(err).Reason != NotFound {
				return err
			}
		}
	}
	return nil
}

// sendEvents sends the events in buf. over is true once the directory itself is gone.
func (v *watching) sendEvents(buf []byte) (over bool, err error) {
	for len(buf) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		size := unix.SizeofInotifyEvent + int(e.Len)
		if size > len(buf) {
			break
		}
		name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:size], []byte{0})
		buf = buf[size:]
		dir, known := v.dirs[e.Wd]
		switch {
		case e.Mask&unix.IN_Q_OVERFLOW != 0 || !known:
			continue
		case e.Mask&unix.IN_IGNORED != 0:
			if delete(v.dirs, e.Wd); dir == "." {
				return true, nil
			}
			continue
		case len(name) == 0: // about the directory itself, which its parent's watch reports
			continue
		}
		path := filepath.Join(dir, string(name))
		for _, op := range []struct {
			mask uint32
			op   string
		}{{unix.IN_CREATE | unix.IN_MOVED_TO, Created}, {unix.IN_MOVED_FROM, Renamed}, {unix.IN_ATTRIB, Chmod}, {unix.IN_MODIFY, Written},
			{unix.IN_DELETE, Removed}} {
			if e.Mask&op.mask == 0 {
				continue
			}
			arrived := op.op == Created && e.Mask&unix.IN_ISDIR != 0 && v.recursive
			if arrived {
				if err := v.add(path); err != nil && toError(err).Reason != NotFound {
					return false, err
				}
			}
			if err := v.send(path, op.op); err != nil {
				return false, err
			}
			if arrived {
				err = v.addFound(path)
			}
		}
	}
	return false, err
}

// addFound reports the entries that a new directory had before it was watched.
func (v *watching) addFound(dir string) error {
	return filepath.WalkDir(filepath.Join(v.dir, dir), func(path string, d fs.DirEntry, err error) error {
		name, e := filepath.Rel(v.dir, path)
		if err != nil || e != nil || name == dir {
			return nil
		}
		return v.send(name, Created)
	})
}

func (v *watching) send(name, op string) error {
	e := Event{Name: name, Op: op}
	if v.entries && op != Removed && op != Renamed {
		e.Entry, _ = statPath(filepath.Join(v.dir, name))
	}
	e.Name = strings.ToValidUTF8(name, "\uFFFD")
	return v.out.Encode(e)
}
