package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/duplex"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

func init() {
	role.TakeOver(role.Guest, func() int {
		if err := serve(os.NewFile(3, "channel")); err != nil {
			fmt.Fprintln(os.Stderr, "sandboxmcp in the sandbox:", err)
			return 1
		}
		return 0
	})
}

// serve answers the server until the channel ends.
func serve(channel *os.File) error {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	// Programs share our UID and could open /proc/PID/mem and the channel. Where no cgroup counts memory, the
	// seccomp filter refuses this call (EINVAL), since PID 1 must be able to read each process's memory use: there,
	// Landlock separates one command from another's memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil && err != unix.EINVAL {
		return fmt.Errorf("prctl(PR_SET_DUMPABLE): %w", err)
	}
	unix.Umask(0o022)
	conn, err := net.FileConn(channel)
	channel.Close()
	if err != nil {
		return fmt.Errorf("open the channel: %w", err)
	}
	duplex.Serve(&http.Server{Handler: handler(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams}, MaxHeaderBytes: maxHeader},
		duplex.New(conn))
	return nil
}

// handler returns the handlers of all operations.
func handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /stat": func(w http.ResponseWriter, r *http.Request) error {
			return writeAnswer(w)(statPath(r.FormValue("path")))
		},
		"GET /list": func(w http.ResponseWriter, r *http.Request) error {
			depth, _ := strconv.Atoi(r.FormValue("depth"))
			return writeAnswer(w)(listDir(r.FormValue("path"), max(1, depth)))
		},
		"GET /file":   sendFile,
		"PUT /file":   receiveFile,
		"GET /tar":    pack,
		"PUT /tar":    unpack,
		"POST /mkdir": func(w http.ResponseWriter, r *http.Request) error { return writeAnswer(w)(mkdir(r.FormValue("path"))) },
		"POST /move": func(w http.ResponseWriter, r *http.Request) error {
			return writeAnswer(w)(move(r.FormValue("path"), r.FormValue("to")))
		},
		"POST /remove": func(w http.ResponseWriter, r *http.Request) error {
			return writeAnswer(w)(struct{}{}, os.RemoveAll(r.FormValue("path")))
		},
		"POST /watch": serveWatch,
		"POST /dial":  dial,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				w.WriteHeader(http.StatusUnprocessableEntity)
				json.NewEncoder(w).Encode(toError(err))
			}
		})
	}
	return mux
}

// writeAnswer writes a value as JSON, unless there is an error.
func writeAnswer(w http.ResponseWriter) func(any, error) error {
	return func(v any, err error) error {
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(v)
	}
}

// toError converts an error to an Error with its reason.
func toError(err error) *Error {
	if own, is := errors.AsType[*Error](err); is {
		return own
	}
	reason := Failed
	for sentinel, kind := range map[error]string{
		fs.ErrNotExist: NotFound, fs.ErrExist: Exists, fs.ErrPermission: Denied, unix.EROFS: Denied, unix.ENOTDIR: NotDirectory,
		unix.EISDIR: IsDirectory, unix.ENOSPC: NoSpace, unix.ENAMETOOLONG: Invalid, unix.ELOOP: Invalid, unix.EINVAL: Invalid,
	} {
		if errors.Is(err, sentinel) {
			reason = kind
		}
	}
	return &Error{reason, err.Error()}
}

// dial connects to a port of the sandbox's loopback. The bodies of request and response are the connection.
func dial(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.ParseUint(r.FormValue("port"), 10, 16)
	if err != nil {
		return errorf(Invalid, "%.20q is not a port", r.FormValue("port"))
	}
	var conn net.Conn
	for _, host := range []string{"127.0.0.1", "::1"} {
		if conn, err = net.Dial("tcp", net.JoinHostPort(host, strconv.FormatUint(port, 10))); err == nil {
			break
		}
	}
	if err != nil {
		return errorf(NotFound, "nothing listens on port %d", port)
	}
	defer conn.Close()
	control := http.NewResponseController(w)
	control.Flush()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(conn, r.Body)
		conn.(*net.TCPConn).CloseWrite()
	}()
	copyFlushed(w, conn)
	conn.Close()
	r.Body.Close()
	<-done
	return nil
}

// copyFlushed copies, and flushes after each part.
func copyFlushed(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil || control.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
