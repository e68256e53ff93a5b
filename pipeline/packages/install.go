package packages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Install fetches packages and puts them into the layer of the session or the namespace. Installs of a layer run one
// at a time; if one fails, or ctx ends, the layer is unchanged. A failure of the package manager is a Receipt; an
// order that is malformed or can't be contained is a *backends.Refusal.
func (s *Store) Install(ctx context.Context, o Order) (Receipt, error) {
	if err := Check(o.Language, o.Packages); err != nil {
		return Receipt{}, err
	}
	ctx, end, err := s.startWork(ctx)
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
	j := job{s, o, kind, set, cache{filepath.Join(s.cfg.Dir, "cache"), s.cfg.CacheBytes, set.account}}
	defer j.cache.trim()
	if o.Session != "" {
		return j.intoSession(ctx)
	}
	return j.intoNamespace(ctx)
}

// job performs an order.
type job struct {
	store *Store
	order Order
	kind  string
	set   settings
	cache cache
}

// intoNamespace installs into a new layer of the namespace, with its layers locked.
func (j *job) intoNamespace(ctx context.Context) (Receipt, error) {
	in, err := j.store.layersOf(j.order.Namespace, j.kind)
	if err != nil {
		return Receipt{}, err
	}
	lock, err := statefile.LockFile(ctx, in.join("lock"), false, installTime)
	if err != nil {
		return Receipt{}, fmt.Errorf("wait for the namespace's packages: %w", err)
	}
	defer lock.Close()
	base, held, err := in.base()
	held.Close() // nil is valid; the current layer stays until we change it
	if err != nil {
		return Receipt{}, err
	}
	return j.carryOut(ctx, base, in, func(next layer, fresh map[string]file) (string, error) {
		retained := maps.Clone(next.Files)
		maps.DeleteFunc(retained, func(name string, _ file) bool { _, is := fresh[name]; return is })
		if err := next.link(base, retained); err != nil {
			return "", fmt.Errorf("keep the previous packages: %w", err)
		}
		return in.publish(next)
	})
}

// installTime is longer than any install; an install's own timeout ends its waiting.
const installTime = 24 * time.Hour

// intoSession installs into the session's layer. It waits for other installs, and ends with errDropped if the session
// ends.
func (j *job) intoSession(ctx context.Context) (Receipt, error) {
	ses, err := j.store.session(j.order.Namespace, j.order.Session, j.order.Language)
	if err != nil {
		return Receipt{}, err
	}
	if ses.kind != j.kind {
		return Receipt{}, fmt.Errorf("the session was created for the packages of %s, but new sandboxes have %s: create a new session", ses.kind,
			j.kind)
	}
	ctx, stop := until(ctx, ses.open)
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
	live, err := load(ses.layer.dir)
	if err != nil {
		return Receipt{}, err
	}
	return j.carryOut(ctx, live, j.store.sessionLayers(), func(next layer, fresh map[string]file) (string, error) {
		if err := renew(live, next, fresh); err != nil {
			return "", fmt.Errorf("change the session's packages: %w", err)
		}
		next.dir = live.dir
		return next.hash(), next.save()
	})
}

// put makes the new layer next, with the fresh files, visible, and returns its hash.
type put func(next layer, fresh map[string]file) (hash string, err error)

// carryOut puts the files of an order into a new layer, adds the remaining files of the previous layer, and calls
// put. A layer above MaxBytes is refused.
func (j *job) carryOut(ctx context.Context, base layer, in layers, put put) (Receipt, error) {
	next, held, err := in.add(managers()[j.order.Language].directory)
	if err != nil {
		return Receipt{}, err
	}
	defer in.prune() // of the new layer too, unless it is current then
	defer held.Close()
	receipt, h, err := j.obtain(ctx, base, next)
	if err != nil || receipt.ExitCode != 0 {
		return receipt, err
	}
	next.Packages = h.Packages
	if !h.Whole {
		maps.Copy(next.Files, base.Files)
		for _, name := range h.Stale {
			delete(next.Files, name)
		}
	}
	maps.Copy(next.Files, h.files)
	if next.bytes() > j.store.cfg.MaxBytes {
		return receipt, errTooLarge
	}
	if receipt.Layer, err = put(next, h.files); err != nil {
		return receipt, err
	}
	receipt.Packages = h.Brought
	return receipt, nil
}

// errTooLarge is the error for files of more than MaxBytes.
var errTooLarge = backends.Refuse("the packages would exceed packages.max_mb",
	"ask for smaller ones, or ", remedy.Raise.With("packages.max_mb"))

// harvest holds the results of an install from its workspace.
type harvest struct {
	report
	files map[string]file // new files of the layer
	pure  bool            // they depend only on the files of the packages in Brought
}

// run runs the package manager in a sandbox, and collects the files that it created. A dry run installs nothing.
func (j *job) run(ctx context.Context, base, next layer, dry bool) (Receipt, harvest, error) {
	o, m := j.order, managers()[j.order.Language]
	task, mounts := j.plan(base, dry)
	show := &screen{show: o.Progress}
	registries, err := newRegistries(j.set, o.Egress.Dialer, o.Language == "python", j.store.cfg.Scripts, 2*j.store.cfg.MaxBytes, show)
	if err != nil {
		return Receipt{}, harvest{}, err
	}
	defer registries.secrets.Close()
	sandbox, err := o.Backend.Start(ctx, backends.Spec{ID: o.ID, Language: o.Language, Profile: o.Profile, Require: o.Require,
		Limits: j.store.limits(o.Limits), Mounts: mounts, Gateway: []int{proxyPort}, Trust: registries.relay.Authority()})
	if err != nil {
		return Receipt{}, harvest{}, err
	}
	defer sandbox.Close()
	show.redact = registries.secrets.Redact
	c := o.Egress
	c.Proxy, c.Decide, c.Dial, c.Relay = true, registries.decide, registries.dial, registries.relay
	gateway := egress.Open(c, egress.Sockets(sandbox.Gateway()))
	defer gateway.Close()
	if err := sandbox.Files().Put(taskFile, 0o644, bytes.NewReader(task)); err != nil {
		return Receipt{}, harvest{}, fmt.Errorf("prepare the install: %w", err)
	}
	receipt, err := j.exec(ctx, sandbox, m.install, show, registries)
	gateway.Close()
	receipt.Hosts = gateway.TakeRecords()
	if err != nil || receipt.ExitCode != 0 {
		return receipt, harvest{}, err
	}
	h, err := collect(ctx, sandbox.Files(), next, dry, j.store.cfg.MaxBytes)
	h.pure = registries.onlyReceived(h.Brought)
	return receipt, h, err
}

// exec runs the install command. A failure of the package manager is in the receipt, with hints at the end of Stderr;
// a missing package manager is an error.
func (j *job) exec(ctx context.Context, sandbox backends.Sandbox, command []string, show *screen, registries *registries) (Receipt, error) {
	stdout, stderr := &output{screen: show}, &output{screen: show}
	result, err := sandbox.Exec(ctx, backends.Command{Args: command, Dir: "/tmp"}, backends.Streams{Stdout: stdout, Stderr: stderr})
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
		return receipt, missingManager(j.order.Backend.Name(), j.order.Language)
	}
	receipt.ExitCode = max(receipt.ExitCode, 1) // even if a limit ended it
	hints := registries.troubles
	if hint := j.hint(receipt.Stdout + receipt.Stderr); hint != "" && len(hints) == 0 {
		hints = []string{hint}
	}
	for _, hint := range hints {
		receipt.Stderr += "sandboxmcp: " + show.cleanLine(hint) + "\n"
	}
	return receipt, nil
}

// hint returns a remedy for a failure of pip, "" if none is clear.
func (j *job) hint(output string) string {
	switch {
	case j.order.Language != "python":
	case strings.Contains(output, "constraint"):
		return "packages that were installed before keep their versions; name those that may change in the same request"
	case !j.store.cfg.Scripts && strings.Contains(output, "No matching distribution"):
		return "only wheels are installed: building a source package would run its code, which packages.scripts in the operator's " +
			"configuration would allow"
	}
	return ""
}

// collect copies the installed files out of the sandbox: regular files below target, at most max bytes in total. It
// skips everything else that install scripts created. For a dry run, it reads only the report.
func collect(ctx context.Context, from backends.Files, to layer, dry bool, max int64) (harvest, error) {
	h := harvest{files: map[string]file{}}
	_, err := from.Each(ctx, func(f backends.File) error {
		name, inside := strings.CutPrefix(f.Name, target+"/")
		switch {
		case f.Name == reportFile:
			return h.read(f)
		case dry, !inside, name == "node_modules/.package-lock.json": // npm compares its times with those of the packages
			return nil
		case !filepath.IsLocal(name) || path.Clean(name) != name || !utf8.ValidString(name):
			return fmt.Errorf("%q is not a valid name in a layer", name)
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		one, err := to.copy(filepath.FromSlash(name), f.Mode&0o100 != 0, r, max)
		if err != nil {
			return fmt.Errorf("%s: %w", shorten(name), err)
		}
		max -= one.Size
		h.files[name] = one
		return nil
	})
	if err != nil {
		return harvest{}, fmt.Errorf("collect the installed files: %w", err)
	}
	return h, nil
}

// read reads the report, at most 64 MiB.
func (h *harvest) read(f backends.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, 64<<20))
	return cmp.Or(err, json.Unmarshal(b, &h.report))
}
