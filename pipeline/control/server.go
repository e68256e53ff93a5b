package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// Config holds the parts that a listener serves.
type Config struct {
	Dir       string // made when missing; see Dir
	Server    Server
	Pipeline  *pipeline.Pipeline // nil: nothing can be run
	Runs      *pipeline.Pipeline // runs what the command line hands over, as a process of its own would; nil: nothing is
	Alike     func() string      // what such a process goes by, as one text; other ones run for themselves
	Approvals *approval.Broker
	Events    *event.Bus   // nil: there are none to listen to
	Log       *slog.Logger // nil says nothing
}

// Bounds of one client. All of them are the same user's, but one that hangs, or a bug in one, must
// not hold the server up.
const (
	maxClients = 64
	maxBody    = 64 << 10 // bytes; so the head
	maxSeconds = 1e6      // of an approval: more than any holds, and less than a Duration can't have
)

// pace is how long a client may take, and what it asks for, unless that has no end.
type pace struct {
	read  time.Duration
	work  time.Duration // more than an answer's record takes at most
	write time.Duration
	close time.Duration // for answers that are under way at Close
}

var usual = pace{read: 5 * time.Second, work: 15 * time.Second, write: 20 * time.Second, close: time.Second}

// Listener answers on a control socket.
type Listener struct {
	c       Config
	pace    pace
	socket  *socket
	http    http.Server
	address atomic.Pointer[string]
	ended   chan struct{}
	streams streams
	longs   streams
	cells   cells
}

// Listen begins to answer. It returns errors.ErrUnsupported where the kernel does not say who
// connects. Close it before what the functions of c show.
func Listen(c Config) (*Listener, error) { return start(c, usual) }

// SetAddress sets what the server tells of where it answers over HTTP.
func (l *Listener) SetAddress(address string) { l.address.Store(&address) }

func (l *Listener) self() Server {
	s := l.c.Server
	if a := l.address.Load(); a != nil {
		s.Address = *a
	}
	return s
}

func start(c Config, p pace) (*Listener, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	s, err := listen(c.Dir, c.Server.PID)
	if err != nil {
		return nil, fmt.Errorf("listen for the command line in %q: %w", c.Dir, err)
	}
	l := &Listener{c: c, pace: p, socket: s, ended: make(chan struct{}), streams: streams{over: make(chan struct{})}, longs: streams{over: make(chan struct{})}}
	l.cells.all = map[string]context.CancelCauseFunc{}
	l.http = http.Server{
		Handler:           l.handler(),
		ReadHeaderTimeout: p.read,
		ReadTimeout:       p.read,
		WriteTimeout:      p.write,
		IdleTimeout:       p.read,
		MaxHeaderBytes:    maxBody,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, conn.(*known).uid)
		},
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(l.ended)
		_ = l.http.Serve(&sameUser{Listener: s.listener, log: c.Log}) // ends with Close
	}()
	return l, nil
}

// Close removes the socket, ends the streams, and gives answers that are under way a moment.
func (l *Listener) Close() error {
	l.socket.remove()
	l.streams.end()
	l.longs.end()
	ctx, cancel := context.WithTimeout(context.Background(), l.pace.close)
	defer cancel()
	err := l.http.Shutdown(ctx)
	if err != nil {
		err = l.http.Close()
	}
	<-l.ended
	l.streams.all.Wait()
	l.longs.all.Wait()
	return err
}

// handler gives all answers a limited time, other than the streams.
func (l *Listener) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.TimeoutHandler(l.routes(), l.pace.work, `{"error":"the server is too busy to answer"}`))
	mux.HandleFunc("GET /v1/events", l.events)
	l.long(mux)
	return mux
}

func (l *Listener) routes() http.Handler {
	mux := http.NewServeMux()
	l.short(mux)
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /v1/server":          func(*http.Request) (any, error) { return l.self(), nil },
		"GET /v1/approvals":       func(*http.Request) (any, error) { return questions{l.pending()}, nil },
		"GET /v1/grants":          func(*http.Request) (any, error) { return grants{l.grants()}, nil },
		"POST /v1/approvals":      l.ask,
		"POST /v1/approvals/{id}": l.answer,
		"POST /v1/grants":         l.grant,
		"/": func(r *http.Request) (any, error) {
			return nil, failure(http.StatusNotFound, "this server has no %s %.100s", r.Method, r.URL.Path)
		},
	} {
		mux.HandleFunc(pattern, answers(f))
	}
	return mux
}

func (l *Listener) pending() []approval.Question {
	if l.c.Approvals == nil {
		return []approval.Question{}
	}
	return l.c.Approvals.Pending()
}

func (l *Listener) grants() []Grant {
	list := []Grant{}
	if l.c.Approvals == nil {
		return list
	}
	for _, g := range l.c.Approvals.Grants() {
		list = append(list, grantOf(g))
	}
	return list
}

// answer answers a question in the name of the user at the other end. A no to what was approved
// takes that back.
func (l *Listener) answer(r *http.Request) (any, error) {
	v, err := readVerdict(r.Body)
	if err != nil {
		return nil, failure(http.StatusBadRequest, "%v", err)
	}
	if l.c.Approvals == nil {
		return nil, approval.ErrUnknown
	}
	id := strings.ToUpper(r.PathValue("id"))
	a := approval.Answer{Allowed: v.Allow, By: channel(r.Context()), User: userName(r.Context()), Reason: v.Reason, Scope: v.Scope}
	if v.Seconds > 0 {
		a.Until = time.Now().Add(duration(v.Seconds))
	}
	out, err := l.settle(r.Context(), id, a)
	if status, _ := statusOf(err); status == http.StatusInternalServerError {
		l.c.Log.Error("control: an answer had no effect", "question", id, "error", err)
	}
	return out, err
}

func (l *Listener) settle(ctx context.Context, id string, a approval.Answer) (Outcome, error) {
	b, out := l.c.Approvals, Outcome{Allowed: a.Allowed}
	for _, q := range b.Pending() {
		if q.ID == id {
			out.Question = q
		}
	}
	held := heldBy(b, id)
	err := b.Answer(ctx, id, a)
	if (errors.Is(err, approval.ErrAnswered) || errors.Is(err, approval.ErrUnknown)) && !a.Allowed && held != nil {
		out.Question, out.Revoked = held.Question, true
		if err = b.Revoke(ctx, id, a); errors.Is(err, approval.ErrUnknown) {
			err = approval.ErrAnswered // by somebody else, a moment ago
		}
	}
	if held = heldBy(b, id); err == nil && held != nil {
		out.Scope, out.Until = held.Answer.Scope, held.Answer.Until
	}
	return out, err
}

func heldBy(b *approval.Broker, id string) *approval.Grant {
	for _, g := range b.Grants() {
		if g.Question.ID == id {
			return &g
		}
	}
	return nil
}

// readVerdict is strict: {} must not be a no, nor a typing error a yes.
func readVerdict(body io.Reader) (Verdict, error) {
	var v struct {
		Allow *bool `json:"allow"`
		Verdict
	}
	data, err := readBody(body, maxBody)
	if err != nil {
		return Verdict{}, err
	}
	if err := decode(data, &v); err != nil {
		return Verdict{}, fmt.Errorf("read the answer: %w", err)
	}
	if v.Allow == nil {
		return Verdict{}, errors.New(`the answer has no "allow"`)
	}
	v.Verdict.Allow = *v.Allow
	switch {
	case v.Seconds < 0:
		return Verdict{}, errors.New("an approval can't hold for less than no time")
	case !v.Verdict.Allow && (v.Scope != "" || v.Seconds != 0):
		return Verdict{}, errors.New("a no has no scope and no end")
	}
	return v.Verdict, nil
}

func refuse(w http.ResponseWriter, status int, err error) {
	reply(w, status, message{Error: err.Error()})
}

func reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"what the server has to say can't be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has gone needs no answer
}

// sameUser lets only this user and root connect, and not too many of them at once.
type sameUser struct {
	net.Listener
	log     *slog.Logger
	clients atomic.Int32
}

func (s *sameUser) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		switch {
		case err != nil || !welcome(uid):
			s.log.Warn("control: another user was refused", "uid", uid, "error", err)
		case s.clients.Add(1) > maxClients:
			s.clients.Add(-1)
			s.log.Warn("control: too many clients", "uid", uid)
		default:
			return &known{Conn: conn, uid: uid, leave: sync.OnceFunc(func() { s.clients.Add(-1) })}, nil
		}
		conn.Close()
	}
}

// known is a connection with the uid of its peer.
type known struct {
	net.Conn
	uid   int
	leave func()
}

func (k *known) Close() error {
	k.leave()
	return k.Conn.Close()
}

type peerKey struct{}

// channel returns the channel by which the user at the other end answers.
func channel(ctx context.Context) approval.Channel {
	if uid, ok := ctx.Value(peerKey{}).(int); ok && uid == 0 {
		return approval.Root()
	}
	return approval.CommandLine()
}

// userName returns the name of the user who sent a request, or the number of one without a name.
func userName(ctx context.Context) string {
	uid, ok := ctx.Value(peerKey{}).(int)
	if !ok {
		return ""
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", uid)
}
