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

// Config holds the parts that an API serves. Requests are only for those that are there.
type Config struct {
	Server    Server
	Pipeline  *pipeline.Pipeline    // nil: there are no secrets to take out of questions
	Runs      *pipeline.Pipeline    // runs what the command line hands over, as a process of its own would; nil: nothing is handed over
	Sweep     func(context.Context) // does before each of these what such a process would at its start, about what killed ones have left
	Alike     func() string         // what such a process goes by, as one text; other ones run for themselves
	Approvals *approval.Broker
	Events    *event.Bus
	Records   Records          // the audit log
	Keys      *signer.Keys     // whose public halves are shown
	Results   *results.Store   // what is kept of runs
	Settings  func() []Setting // those in force
	Doctor    func(context.Context) ([]Finding, error)
	Disk      func() (Disk, error)
	More      []operation.Operation // what else is answered at the same address, for the OpenAPI document
	Log       *slog.Logger          // nil says nothing
}

// Bounds of one client. One that hangs, or a bug in one, must not hold the server up.
const (
	maxClients = 64
	maxBody    = 64 << 10 // bytes; so the head
	maxSeconds = 1e6      // of an approval: more than any holds, and less than a Duration can't have
)

// Bounds of the requests under way that have no end of their own, or read much of the log: there is room for the short
// ones beside them.
const (
	maxLong     = 32
	maxStreams  = 16 // of events: each is a connection
	maxWatches  = 64 // of runs
	maxReads    = 6  // further ones wait
	maxOwnReads = 2  // of one person
)

// pace is how long a client may take, and what it asks for, unless that has no end.
type pace struct {
	read  time.Duration
	work  time.Duration // more than an answer's record takes at most
	write time.Duration
	close time.Duration // for answers that are under way at Close
}

var usual = pace{read: 5 * time.Second, work: 15 * time.Second, write: 20 * time.Second, close: time.Second}

// API answers what people ask of a server. Whoever gives it a request knows who sends that: an identity is in its
// context.
type API struct {
	c       Config
	pace    pace
	handler http.Handler
	address atomic.Pointer[string]
	page    atomic.Pointer[func(identity.Identity) (string, error)]
	streams *door.Slots // of events
	longs   *door.Slots
	watches *door.Slots
	ends    *door.Slots // of sessions: they end what may have taken all other places
	reads   *door.Slots // of much of the log: each can keep a core busy for seconds
	sums    figures
	looked  doctorCache
	cells   cells
}

// New returns an API that works as c says. End it before what the functions of c show.
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
		deny(w, failure(http.StatusForbidden, "this is for people, and these credentials are an agent's: its operations are at /v1/tools and /mcp"))
		return
	}
	if path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath() { // http.ServeMux would redirect to another one
		deny(w, failure(http.StatusNotFound, "this server has no %s %.100s", r.Method, r.URL.Path))
		return
	}
	a.handler.ServeHTTP(w, r.WithContext(pipeline.WithCaller(r.Context(), by.caller)))
}

// Stop has the streams and what takes long end, and lets no more begin. Where a client neither reads nor sends they end
// with its connection.
func (a *API) Stop() {
	for _, s := range a.endless() {
		s.Stop()
	}
	a.sums.forgetLog()
}

// Close stops them, and returns when they have ended.
func (a *API) Close() {
	a.Stop()
	for _, s := range a.endless() {
		s.Wait()
	}
	a.sums.under.Wait()
}

func (a *API) endless() []*door.Slots { return []*door.Slots{a.streams, a.longs, a.watches, a.ends} }

// SetAddress sets what the server tells of where it answers over HTTP.
func (a *API) SetAddress(address string) { a.address.Store(&address) }

func (a *API) self(ctx context.Context, _ *NoArguments) (Server, error) {
	s := a.c.Server
	if address := a.address.Load(); address != nil {
		s.Address = *address
	}
	if !requesterOf(ctx).peer {
		s.Database = "" // where it is on that machine is nothing to others
	}
	return s, nil
}

// routes gives all answers a limited time, other than the streams and what takes as long as programs do.
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
	on(r, GetPolicy, a.policy, nil)
	on(r, ListSecrets, a.secrets, nil)
	on(r, GetDisk, a.disk, nil)
	on(r, GetFigures, a.figuresOf, nil)
	on(r, OpenPage, a.invite, nil)
	short.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		door.Reply(w, http.StatusOK, operation.OpenAPI(a.c.Server.Version, append(Operations(), a.c.More...)))
	})
	short.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		deny(w, failure(http.StatusNotFound, "this server has no %s %.100s", r.Method, r.URL.Path))
	})
	return all
}

// routes are those that have a limited time, and all of them.
type routes struct {
	*API
	short, all *http.ServeMux
}

// on has requests for a route answered by do, within what wraps it; nil is what the route's time asks for.
func on[A, R any](all routes, o *operation.Route[A, R], do func(context.Context, *A) (R, error), within func(http.HandlerFunc) http.HandlerFunc) {
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

// streamed is the limit of requests whose body is read as it comes.
const streamed = -1

// long is for what takes as long as programs do, asked for in at most limit bytes. It ends with the client, or with the
// server.
func (a *API) long(limit int64) func(http.HandlerFunc) http.HandlerFunc {
	return a.longAmong(a.longs, limit)
}

// longAmong is long for what counts among these, and not among what has something run.
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
			} else if by.peer { // the times of others are those of the listener
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

// boundBody has requests wait for room. Those at the server's own socket need none: its user can have it do anything.
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

// gather has the whole body of a request in memory, unless it is longer than limit, and then gives its client all the
// time in the world.
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

// answer answers a question in the name of who asks. A no to what was approved takes that back.
func (a *API) answer(ctx context.Context, v *Verdict) (Outcome, error) {
	if !v.Allow && (v.Scope != "" || v.Seconds != 0) {
		return Outcome{}, failure(http.StatusBadRequest, "a no has no scope and no end")
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
	if !sees(out.Question.Namespace) { // nor is it told whether there is one
		return Outcome{}, approval.ErrUnknown
	}
	err := b.Answer(ctx, id, verdict)
	if (errors.Is(err, approval.ErrAnswered) || errors.Is(err, approval.ErrUnknown)) && !verdict.Allowed && held != nil {
		out.Revoked = true
		if err = b.Revoke(ctx, id, verdict); errors.Is(err, approval.ErrUnknown) {
			err = approval.ErrAnswered // by somebody else, a moment ago
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
