package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Install fetches packages and puts them into the session's or the namespace's layer. One install of a layer runs at a
// time; when it fails, or ctx ends, the layer is as it was. The failure of a package manager is a Receipt; an order
// that is malformed or can't be contained is a *backends.Refusal.
func (s *Store) Install(ctx context.Context, o Order) (Receipt, error) {
	if err := Check(o.Language, o.Packages); err != nil {
		return Receipt{}, err
	}
	if _, err := dirName("namespace", o.Namespace); err != nil {
		return Receipt{}, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return Receipt{}, err
	}
	defer end()
	kind, err := s.freshKind(ctx, o.Backend, o.Language)
	if err != nil {
		return Receipt{}, err
	}
	set, err := s.settings(ctx, o.Backend, o.Language)
	if err != nil {
		return Receipt{}, err
	}
	cache, err := s.cache(set)
	if err != nil {
		return Receipt{}, err
	}
	defer cache.trim()
	j := job{store: s, order: o, kind: kind, tool: tools[o.Language], set: set, cache: cache}
	if o.Session != "" {
		return j.intoSession(ctx)
	}
	return j.intoNamespace(ctx)
}

// job carries out an order.
type job struct {
	store *Store
	order Order
	kind  string
	tool  tool
	set   settings
	cache cache
}

// intoNamespace installs into a new generation of the namespace's layer, under its lock.
func (j *job) intoNamespace(ctx context.Context) (Receipt, error) {
	sh, err := j.store.layersOf(j.order.Namespace, j.kind)
	if err != nil {
		return Receipt{}, err
	}
	held, err := sh.own(ctx)
	if err != nil {
		return Receipt{}, fmt.Errorf("wait for the namespace's packages: %w", err)
	}
	defer held.Close()
	base := layer{files: map[string]file{}}
	name, err := sh.current()
	if err == nil && name != "" {
		base, err = load(sh.join(name))
	}
	if err != nil {
		return Receipt{}, err
	}
	stage, err := sh.stage()
	if err != nil {
		return Receipt{}, err
	}
	defer os.RemoveAll(stage)
	return j.carryOut(ctx, base, stage, func(next layer, retained, _ map[string]file, b *builder) (string, error) {
		if err := b.link(base.content(), retained); err != nil {
			return "", fmt.Errorf("keep what was installed before: %w", err)
		}
		return sh.publish(next)
	})
}

// intoSession installs into the session's layer. It waits for other installs, and ends with errDropped if the session ends.
func (j *job) intoSession(ctx context.Context) (Receipt, error) {
	ses, err := j.store.session(j.order.Namespace, j.order.Session, j.order.Language)
	if err != nil {
		return Receipt{}, err
	}
	if ses.kind != j.kind {
		return Receipt{}, fmt.Errorf("the session was opened for the packages of %s, and new sandboxes have %s: open a new session", ses.kind, j.kind)
	}
	ctx, stop := until(ctx, ses.dropped, errDropped)
	defer stop()
	select {
	case ses.busy <- struct{}{}:
		defer func() { <-ses.busy }()
	case <-ctx.Done():
		return Receipt{}, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return Receipt{}, context.Cause(ctx)
	}
	live, err := load(ses.dir)
	if err != nil {
		return Receipt{}, err
	}
	stage, err := os.MkdirTemp(ses.dir, stagePrefix)
	if err != nil {
		return Receipt{}, err
	}
	defer os.RemoveAll(stage)
	return j.carryOut(ctx, live, stage, func(next layer, _, fresh map[string]file, b *builder) (string, error) {
		if err := renew(live, b.root, next, fresh); err != nil {
			return "", fmt.Errorf("change the session's packages: %w", err)
		}
		next.dir = live.dir
		return next.save()
	})
}

// errDropped is the cause of an install's end if its session ends first.
var errDropped = errors.New("the session is closed")

// put makes the layer next of the fresh files, which are below b's root, and the retained ones,
// which are in the layer before. It returns the layer's hash.
type put func(next layer, retained, fresh map[string]file, b *builder) (string, error)

// carryOut runs the package manager, collects the installed files into stage, and calls put to make the new layer. A layer
// that would be larger than MaxBytes is refused.
func (j *job) carryOut(ctx context.Context, base layer, stage string, put put) (Receipt, error) {
	next := layer{dir: stage}
	b, err := newBuilder(next.content())
	if err != nil {
		return Receipt{}, err
	}
	receipt, h, err := j.obtain(ctx, base, stage, b)
	if err != nil || receipt.ExitCode != 0 {
		return receipt, err
	}
	retained, err := j.tool.retained(base, h.files)
	if err != nil {
		return receipt, err
	}
	next.packages, next.files = h.all, maps.Clone(retained)
	maps.Copy(next.files, h.files)
	if next.bytes() > j.store.cfg.MaxBytes {
		return receipt, tooLarge(j.store.cfg.MaxBytes)
	}
	for _, dir := range j.tool.directories() {
		if err := b.mkdir(dir); err != nil {
			return receipt, err
		}
	}
	if ctx.Err() != nil {
		return receipt, context.Cause(ctx)
	}
	if receipt.Layer, err = put(next, retained, h.files, b); err != nil {
		return receipt, err
	}
	receipt.Packages = h.brought
	return receipt, nil
}

// obtain puts the files of an order into b. If the same was ordered before, the package manager only finds out what there is to install, and
// the cache may have that already. What install scripts may have changed is not kept: they see more than the files of one package. Nor is what
// came of directories of this host, as nobody outside sees which of their files the package manager reads.
func (j *job) obtain(ctx context.Context, base layer, stage string, b *builder) (Receipt, harvest, error) {
	cache, works := j.cache, ""
	if cache.max == 0 || j.store.cfg.Scripts || len(j.set.mounts) > 0 {
		return j.run(ctx, base, stage, b)
	}
	if j.order.Language == "node" { // npm works on the layer
		_, works = base.list()
	}
	order := cache.name(append(slices.Sorted(slices.Values(j.order.Packages)), j.kind, works)...)
	key := func(h harvest) string {
		list, _ := json.Marshal(h.brought)
		return cache.name(string(list), string(h.lock))
	}
	var asked []egress.Record
	if len(cache.sets(order, "*")) > 0 {
		receipt, h, err := j.run(ctx, base, stage, nil)
		if err != nil || receipt.ExitCode != 0 {
			return receipt, h, err
		}
		if h.files = cache.take(order, key(h), b); h.files != nil {
			receipt.Cached = true
			receipt.Stdout += "sandboxmcp: the same was installed before, and is taken from the cache\n"
			return receipt, h, nil
		}
		asked = receipt.Hosts
	}
	receipt, h, err := j.run(ctx, base, stage, b)
	receipt.Hosts = append(asked, receipt.Hosts...)
	if err == nil && receipt.ExitCode == 0 && h.pure() {
		cache.addSet(order, key(h), stage, b, h.files)
	}
	return receipt, h, err
}

// tooLarge returns the refusal of a layer of more than max bytes.
func tooLarge(max int64) error {
	return backends.Refuse(fmt.Sprintf("the packages would be larger than %d MiB together", max>>20), "ask for smaller ones, or ", remedy.Raise.With("packages.max_mb"))
}

// run runs the package manager in a sandbox, and collects the files that it left there. Without a builder it installs nothing.
func (j *job) run(ctx context.Context, base layer, stage string, b *builder) (Receipt, harvest, error) {
	o := j.order
	r, err := j.tool.plan(o, base, j.set, j.store.cfg.Scripts, b == nil)
	if err != nil {
		return Receipt{}, harvest{}, err
	}
	sites, err := newSites(j.set, o.Egress.Dialer, 2*j.store.cfg.MaxBytes, j.cache, stage)
	if err != nil {
		return Receipt{}, harvest{}, err
	}
	defer sites.secrets.Close()
	relay, err := sites.relay()
	if err != nil {
		return Receipt{}, harvest{}, err
	}
	sandbox, err := o.Backend.Start(ctx, backends.Spec{ID: o.ID, Language: o.Language, Profile: o.Profile, Require: o.Require,
		Limits: j.store.limits(o.Limits), Mounts: r.mounts, Gateway: []int{proxyPort}, Trust: relay.Authority()})
	if err != nil {
		return Receipt{}, harvest{}, err
	}
	defer sandbox.Close()
	show := &screen{show: o.Progress, outwards: sites.secrets.Redact}
	if o.Progress != nil && o.Language == "node" { // pip says it by itself
		sites.fetched = func(file, host string) { show.line("fetched " + file + " from " + host) }
	}
	c := o.Egress
	c.Proxy, c.Decide, c.Dial, c.Relay = true, sites.decide, sites.dial, relay
	gateway := egress.Open(c, egress.Sockets(sandbox.Gateway()))
	defer gateway.Close()
	for name, content := range r.files {
		if err := sandbox.Files().Put(name, 0o644, strings.NewReader(content)); err != nil {
			return Receipt{}, harvest{}, fmt.Errorf("prepare the install: %w", err)
		}
	}
	receipt, err := j.exec(ctx, sandbox, r, show, sites)
	gateway.Close()
	receipt.Hosts = gateway.Take()
	if err != nil || receipt.ExitCode != 0 {
		return receipt, harvest{}, err
	}
	h, err := collect(ctx, sandbox.Files(), b, j.store.cfg.MaxBytes)
	if errors.Is(err, errTooLarge) {
		err = tooLarge(j.store.cfg.MaxBytes)
	}
	if err == nil {
		h.received, h.unknown = sites.received, sites.unknown
		h.all, h.brought, err = j.tool.read(o, base, h)
	}
	return receipt, h, err
}

// exec runs the plan's command. A failure of the package manager is in the receipt, with hints at the end of Stderr; a
// missing package manager is an error.
func (j *job) exec(ctx context.Context, sandbox backends.Sandbox, r installPlan, show *screen, sites *sites) (Receipt, error) {
	stdout, stderr := &output{screen: show}, &output{screen: show}
	result, err := sandbox.Exec(ctx, backends.Command{Args: r.command, Dir: "/tmp", Env: r.env}, backends.Streams{Stdout: stdout, Stderr: stderr})
	if err != nil {
		return Receipt{}, err
	}
	receipt := Receipt{Stdout: stdout.String(), Stderr: stderr.String(), ExitCode: result.ExitCode, Result: result}
	switch {
	case ctx.Err() != nil:
		return receipt, context.Cause(ctx)
	case result.Ended == backends.EndedOK:
		return receipt, nil
	case result.ExitCode == exitMissing:
		return receipt, missing(j.order.Backend.Name(), j.order.Language)
	}
	receipt.ExitCode = max(receipt.ExitCode, 1) // also when a limit ended it
	hints := sites.troubled()
	if hint := r.hint(receipt.Stdout + receipt.Stderr); hint != "" && len(hints) == 0 {
		hints = []string{hint}
	}
	for _, hint := range hints {
		receipt.Stderr += "sandboxmcp: " + show.line(hint) + "\n"
	}
	return receipt, nil
}
