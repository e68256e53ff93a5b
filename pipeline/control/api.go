package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Config holds the parts that an API serves. Requests for missing parts are refused.
type Config struct {
	Server    Server
	Pipeline  *pipeline.Pipeline    // nil: questions need no redaction
	Runs      *pipeline.Pipeline    // for runs that the command line hands over, as in a process of their own; nil accepts none
	Sweep     func(context.Context) // called before each of these: cleans up after killed processes, as a new process would
	Alike     func() string         // fingerprint of the settings; processes with another one run by themselves
	Approvals *approval.Broker
	Events    *event.Bus
	Records   Records          // the audit log
	Keys      *signer.Keys     // their public keys are shown
	Results   *results.Store   // stored results of runs
	Settings  func() []Setting // settings in force
	Doctor    func(context.Context) ([]Finding, error)
	Disk      func() (Disk, error)
	More      []operation.Operation // other operations at the same address, for the OpenAPI document
	Log       *slog.Logger          // nil logs nothing
}

// Bounds of one client, so that a hanging or faulty client does not block the server.
const (
	maxClients = 64
	maxBody    = 64 << 10 // bytes, of a body and of the headers
	maxSeconds = 1e6      // of an approval: above the maximum, and within a time.Duration
)

// Bounds of running requests without an end of their own, or that read much of the log, so that there is room for
// short ones.
const (
	maxLong     = 32
	maxStreams  = 16 // event streams: each is a connection
	maxWatches  = 64 // watched runs
	maxReads    = 6  // further ones wait
	maxOwnReads = 2  // per person
)

// pace bounds the time of a client and of its request, unless that has no end.
type pace struct {
	read  time.Duration
	work  time.Duration // more than the maximum for recording an answer
	write time.Duration
	close time.Duration // for running answers at Close
}

var usual = pace{read: 5 * time.Second, work: 15 * time.Second, write: 20 * time.Second, close: time.Second}

// API answers requests of people to a server. The caller of ServeHTTP has identified the sender: the context has the
// identity.
type API struct {
	c       Config
	pace    pace
	handler http.Handler
	address atomic.Pointer[string]
	page    atomic.Pointer[func(identity.Identity) (string, error)]
	streams *door.Slots // event streams
	longs   *door.Slots
	watches *door.Slots
	ends    *door.Slots // ends of sessions: sessions may have taken all other slots
	reads   *door.Slots // long reads of the log: each can keep a core busy for seconds
	sums    figures
	looked  doctorCache
	cells   cells
}

// New returns an API with the parts in c. Call Close before closing these.
func New(c Config) *API { return newAPI(c, usual) }

func newAPI(c Config, p pace) *API {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	slots := func(verb string, n int) *door.Slots { return door.NewSlots(verb, n, n/3, n/4) }
	a := &API{c: c, pace: p, streams: slots("listen", maxStreams), watches: slots("watch runs", maxWatches),
		longs: slots("wait for what takes long", maxLong), ends: slots("wait for what takes long", maxLong),
		reads: door.NewSlots("read the log", maxReads, maxOwnReads, 0)}
	a.cells.all = map[string]underway{}
	a.handler = a.routes()
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, peer := r.Context().Value(peerKey{}).(int); peer && r.Header.Get(pageHeader) != "" {
		r = r.WithContext(context.WithValue(r.Context(), pageKey{}, true))
	}
	by := requesterOf(r.Context())
	if !by.person {
		deny(w, failure(http.StatusForbidden, "this API is for people, and these are credentials of an agent: use /v1/tools and /mcp"))
		return
	}
	if path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath() { // http.ServeMux would redirect
		deny(w, failure(http.StatusNotFound, "unknown operation %s %.100s", r.Method, r.URL.Path))
		return
	}
	a.handler.ServeHTTP(w, r.WithContext(pipeline.WithCaller(r.Context(), by.caller)))
}

// Stop ends the streams and long requests, and refuses new ones. If a client neither reads nor sends, they end with
// its connection.
func (a *API) Stop() {
	for _, s := range a.endless() {
		s.Stop()
	}
	a.sums.forgetLog()
}

// Close stops them, and waits for their end.
func (a *API) Close() {
	a.Stop()
	for _, s := range a.endless() {
		s.Wait()
	}
	a.sums.under.Wait()
}

func (a *API) endless() []*door.Slots { return []*door.Slots{a.streams, a.longs, a.watches, a.ends} }

// SetAddress sets the server's HTTP address.
func (a *API) SetAddress(address string) { a.address.Store(&address) }

func (a *API) self(ctx context.Context, _ *NoArguments) (Server, error) {
	s := a.c.Server
	if address := a.address.Load(); address != nil {
		s.Address = *address
	}
	if !requesterOf(ctx).peer {
		s.Database = "" // hide the path from others
	}
	return s, nil
}

// routes returns the handler. All answers have a time limit, except streams and running programs.
func (a *API) routes() http.Handler {
	short, all := http.NewServeMux(), http.NewServeMux()
	r := routes{a, short, all}
	all.Handle("/", http.TimeoutHandler(short, a.pace.work, `{"error":"the server is too busy to answer"}`))
	all.HandleFunc(streamEvents.Pattern, a.events)
	all.HandleFunc(runCell.Pattern, a.long(runCell.Limit())(a.cell))
	all.HandleFunc("POST /v1/runs", a.long(maxValueBody)(a.run))
	on(r, CreateSession, a.create, nil)
	on(r, EndSession, a.endSession, a.longAmong(a.ends, EndSession.Limit()))
	on(r, InspectSession, a.state, nil)
	on(r, PutValue, a.bridge, nil)
	on(r, CopyFile, a.copy, nil)
	all.HandleFunc(putFiles.Pattern, a.long(streamed)(a.putFiles))
	all.HandleFunc(getFiles.Pattern, a.long(getFiles.Limit())(a.getFiles))
	on(r, CopyExport, a.copyExport, nil)
	all.HandleFunc(watchRun.Pattern, a.watch)
	on(r, ShowCode, a.runningCode, nil)
	on(r, ReviewCode, a.review, nil)
	on(r, RunDoctor, a.doctor, nil)

	on(r, getServer, a.self, nil)
	on(r, listApprovals, a.pending, nil)
	on(r, listGrants, a.grants, nil)
	on(r, OpenApproval, a.requestGrant, nil)
	on(r, AnswerApproval, a.answer, nil)
	on(r, GiveGrant, a.grant, nil)
	on(r, ListSessions, func(ctx context.Context, q *InNamespace) ([]session.Info, error) {
		return a.sessions(ctx, q.Namespace), nil
	}, nil)
	on(r, ListUsage, a.usage, nil)
	on(r, InterruptCell, a.interrupt, nil)
	on(r, GetLimits, a.limits, nil)
	on(r, SetLimits, a.setLimits, nil)
	on(r, GetQueue, a.queue, nil)
	on(r, GetStats, a.stats, nil)
	on(r, ListJobs, a.jobs, nil)
	on(r, ListRunning, a.underway, nil)
	on(r, InterruptRun, a.interruptRun, nil)
	on(r, SearchLog, a.search, a.boundBody)
	on(r, GetStory, a.story, a.boundBody)
	on(r, GetEvidence, a.evidence, a.boundBody)
	on(r, ListStored, a.stored, nil)
	on(r, ReadStored, a.storedPart, nil)
	on(r, ListChanges, a.listChanges, nil)
	on(r, GetChanges, a.getChanges, nil)
	on(r, DiffChanges, a.diffChanges, nil)
	on(r, ApplyChanges, a.applyChanges, nil)
	on(r, UndoChanges, a.undoChanges, nil)
	on(r, DropChanges, a.dropChanges, nil)
	on(r, GetPolicy, a.policy, nil)
	on(r, ListSecrets, a.secrets, nil)
	on(r, GetDisk, a.disk, nil)
	on(r, GetFigures, a.figuresOf, nil)
	on(r, OpenPage, a.invite, nil)
	short.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		door.Reply(w, http.StatusOK, operation.OpenAPI(a.c.Server.Version, append(Operations(), a.c.More...)))
	})
	short.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		deny(w, failure(http.StatusNotFound, "unknown operation %s %.100s", r.Method, r.URL.Path))
	})
	return all
}

// routes are the routes with a time limit, and all routes.
type routes struct {
	*API
	short, all *http.ServeMux
}

// on registers do for a route. within wraps the handler; nil chooses by the route's time.
func on[A, R any](all routes, o *operation.Route[A, R], do func(context.Context, *A) (R, error),
	within func(http.HandlerFunc) http.HandlerFunc) {
	mux := all.short
	if o.Long {
		mux = all.all
		if within == nil {
			within = all.long(o.Limit())
		}
	}
	h := o.Handler(do, deny)
	if within != nil {
		h = within(h)
	}
	mux.HandleFunc(o.Pattern, h)
}

// streamed is the limit of requests whose body is read as a stream.
const streamed = -1

// long wraps a request with a body of at most limit bytes that takes as long as a program. It ends with the client or
// the server.
func (a *API) long(limit int64) func(http.HandlerFunc) http.HandlerFunc {
	return a.longAmong(a.longs, limit)
}

// longAmong is long with other slots than those of running programs.
func (a *API) longAmong(among *door.Slots, limit int64) func(http.HandlerFunc) http.HandlerFunc {
	return func(f http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			by := requesterOf(r.Context())
			ctx, leave, err := among.Acquire(r.Context(), by.client())
			if err != nil {
				deny(w, err)
				return
			}
			defer leave()
			if limit != streamed {
				err = gather(w, r, limit)
			} else if by.peer { // the listener sets the deadlines of others
				err = door.ClearDeadlines(w)
			}
			if err != nil {
				deny(w, err)
				return
			}
			f(w, r.WithContext(ctx))
		}
	}
}

// boundBody makes requests wait for memory. Those on the server's own socket need none: its user has full control
// anyway.
func (a *API) boundBody(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := requesterOf(r.Context())
		if by.peer {
			f(w, r)
			return
		}
		_, leave, err := a.reads.WaitAcquire(r.Context(), by.user)
		if err != nil {
			deny(w, failure(http.StatusServiceUnavailable, "the server is too busy to answer"))
			return
		}
		defer leave()
		f(w, r)
	}
}

// gather reads the whole body of a request, up to limit, and then removes the client's deadlines.
func gather(w http.ResponseWriter, r *http.Request, limit int64) error {
	body, err := operation.ReadBody(r, limit)
	if err != nil {
		return err
	}
	r.Body = door.Gathered(body)
	return door.ClearDeadlines(w)
}

func (a *API) queue(ctx context.Context, _ *NoArguments) (pipeline.Load, error) {
	if by := requesterOf(ctx); !by.seesAll() {
		return a.c.Pipeline.Load().ForNamespaces(by.sees), nil
	}
	return a.c.Pipeline.Load(), nil
}

func (a *API) stats(ctx context.Context, _ *NoArguments) (status.Stats, error) {
	if by := requesterOf(ctx); !by.seesAll() {
		return status.NowOf(a.c.Pipeline, by.sees), nil
	}
	return status.Now(a.c.Pipeline), nil
}

func (a *API) jobs(ctx context.Context, q *InNamespace) ([]run.Job, error) {
	sees := requesterOf(ctx).sees
	return slices.DeleteFunc(run.Jobs(a.c.Pipeline, q.Namespace), func(j run.Job) bool { return !sees(j.Namespace) }), nil
}

func (a *API) pending(ctx context.Context, _ *NoArguments) (questions, error) {
	sees := requesterOf(ctx).sees
	return questions{slices.DeleteFunc(a.c.Approvals.Pending(), func(q approval.Question) bool { return !sees(q.Namespace) })}, nil
}

func (a *API) grants(ctx context.Context, _ *NoArguments) (grants, error) {
	all := grants{[]Grant{}}
	sees := requesterOf(ctx).sees
	for _, g := range a.c.Approvals.Grants() {
		if sees(g.Question.Namespace) {
			all.Grants = append(all.Grants, grantOf(g))
		}
	}
	return all, nil
}

// answer answers a question in the name of the requester. Denying an approved question revokes the approval.
func (a *API) answer(ctx context.Context, v *Verdict) (Outcome, error) {
	if !v.Allow && (v.Scope != "" || v.Seconds != 0) {
		return Outcome{}, failure(http.StatusBadRequest, "a denial can't have a scope or an end")
	}
	by, id := requesterOf(ctx), strings.ToUpper(v.ID)
	verdict := approval.Answer{Allowed: v.Allow, By: by.channel(), User: by.user, Reason: v.Reason, Scope: v.Scope}
	if v.Seconds > 0 {
		verdict.Until = time.Now().Add(duration(v.Seconds))
	}
	out, err := a.answerQuestion(ctx, id, verdict)
	if status, _ := statusOf(err); status >= http.StatusInternalServerError {
		a.c.Log.Error("control: an answer had no effect", "question", id, "error", err)
	}
	return out, err
}

func (a *API) answerQuestion(ctx context.Context, id string, verdict approval.Answer) (Outcome, error) {
	b, out, sees := a.c.Approvals, Outcome{Allowed: verdict.Allowed}, requesterOf(ctx).sees
	for _, q := range b.Pending() {
		if q.ID == id {
			out.Question = q
		}
	}
	held := grantByID(b, id)
	if held != nil {
		out.Question = held.Question
	}
	if !sees(out.Question.Namespace) { // don't reveal whether it exists
		return Outcome{}, approval.ErrUnknown
	}
	err := b.Answer(ctx, id, verdict)
	if (errors.Is(err, approval.ErrAnswered) || errors.Is(err, approval.ErrUnknown)) && !verdict.Allowed && held != nil {
		out.Revoked = true
		if err = b.Revoke(ctx, id, verdict); errors.Is(err, approval.ErrUnknown) {
			err = approval.ErrAnswered // by another person just now
		}
	}
	if errors.Is(err, approval.ErrUnrecorded) {
		a.c.Log.Error("control: a row is late", "question", id, "error", err)
		out.Late.Late, err = audit.OwedText, nil
	}
	if held = grantByID(b, id); err == nil && held != nil {
		out.Scope, out.Until = held.Answer.Scope, held.Answer.Until
	}
	return out, err
}

func grantByID(b *approval.Broker, id string) *approval.Grant {
	for _, g := range b.Grants() {
		if g.Question.ID == id {
			return &g
		}
	}
	return nil
}
