package e2b

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// snapshot is a copy of the files of a sandbox without running programs. It is a template for new sandboxes.
type snapshot struct {
	id        string // of the pipeline's snapshot
	namespace string
	name      string // "" is none
	sandbox   string
	runtime   Template
}

// describe returns a snapshot in E2B's format.
func (s *snapshot) describe() map[string]any {
	names := []string{}
	if s.name != "" {
		names = append(names, s.name)
	}
	return map[string]any{"snapshotID": strings.ToLower(s.id), "names": names}
}

// hasName reports whether a name, which may have a tag, is the snapshot's name or id.
func (s *snapshot) hasName(name string) bool {
	name, tag, _ := strings.Cut(name, ":")
	return name != "" && (name == s.name || name == strings.ToLower(s.id)) && (tag == "" || tag == "latest" || tag == "default")
}

// replaces reports whether the snapshot has taken over the name of an older one.
func (s *snapshot) replaces(old *snapshot) bool {
	return s.name != "" && s.name == old.name && s.namespace == old.namespace
}

// snapshotsOf returns the snapshots that a caller may see, by id and thereby oldest first. It forgets those whose
// files are gone.
func (s *Server) snapshotsOf(c caller) (all []*snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots = slices.DeleteFunc(s.snapshots, func(n *snapshot) bool {
		return !session.HasSnapshot(s.cfg.Pipeline, n.namespace, n.id)
	})
	for _, n := range s.snapshots {
		if s.canSee(c, n.namespace) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *snapshot) int { return cmp.Compare(a.id, b.id) })
	return all
}

// snapshotNamed returns a snapshot in the namespace of the caller's new sandboxes, or nil.
func (s *Server) snapshotNamed(c caller, name string) *snapshot {
	all := s.snapshotsOf(c)
	if i := slices.IndexFunc(all, func(n *snapshot) bool { return n.namespace == c.namespace && n.hasName(name) }); i >= 0 {
		return all[i]
	}
	return nil
}

// copyFiles stores a copy of the files of a sandbox.
func (s *Server) copyFiles(r *http.Request, b *Sandbox) (id string, err error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	_, res, err := pipeline.Do(r.Context(), s.cfg.Pipeline, session.Snapshot{Namespace: b.Namespace, Session: b.session()})
	return res.ID, notCopied(err, "memory can't be copied: end all programs first")
}

// notCopied returns why files could not be copied: running programs, for which it has our own remedy, or another
// error.
func notCopied(err error, remedy string) error {
	e, is := errors.AsType[*pipeline.Error](err)
	if is && e.Denied && e.Stage == pipeline.StageValidate && !errors.Is(err, session.ErrDead) {
		return door.Refuse(http.StatusBadRequest, e.Reason+": "+remedy)
	}
	return err
}

// deleteFiles deletes a snapshot's files, even if the client disconnects.
func (s *Server) deleteFiles(r *http.Request, namespace, id string) error {
	_, _, err := pipeline.Do(context.WithoutCancel(r.Context()), s.cfg.Pipeline, session.End{Namespace: namespace, Session: id})
	return err
}

func (s *Server) takeSnapshot(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	q := struct{ Name string }{}
	if err := decodeOptional(r, &q); err != nil {
		return err
	}
	name, _, _ := strings.Cut(q.Name, ":")
	if _, is := s.template(name); is || len(name) > maxName {
		return door.Refuse(http.StatusBadRequest, "name must have at most "+strconv.Itoa(maxName)+" bytes, and not be the name of a template")
	}
	id, err := s.copyFiles(r, b)
	if err != nil {
		return err
	}
	n := &snapshot{id: id, namespace: b.Namespace, name: name, sandbox: b.ID, runtime: b.runtime}
	s.mu.Lock()
	old := slices.Clone(s.snapshots)
	s.snapshots = append(slices.DeleteFunc(s.snapshots, n.replaces), n)
	s.mu.Unlock()
	for _, o := range old {
		if n.replaces(o) {
			_ = s.deleteFiles(r, o.namespace, o.id) // may have expired
		}
	}
	return door.Reply(w, http.StatusCreated, n.describe())
}

// maxName bounds the name of a snapshot, in bytes.
const maxName = 128

// listSnapshots answers with the snapshots that a caller may see, in pages.
func (s *Server) listSnapshots(w http.ResponseWriter, r *http.Request, c caller) error {
	q := r.URL.Query()
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	list, after := []map[string]any{}, strings.ToUpper(q.Get("nextToken"))
	for _, n := range s.snapshotsOf(c) {
		if id := q.Get("sandboxID"); id != "" && id != n.sandbox || q.Has("name") && !n.hasName(q.Get("name")) || n.id <= after {
			continue
		}
		if len(list) == limit {
			w.Header().Set("X-Next-Token", list[limit-1]["snapshotID"].(string))
			break
		}
		list = append(list, n.describe())
	}
	return door.Reply(w, http.StatusOK, list)
}

func (s *Server) deleteSnapshot(w http.ResponseWriter, r *http.Request, c caller) error {
	// First the snapshot that a new sandbox with this name would use.
	for _, n := range append([]*snapshot{s.snapshotNamed(c, r.PathValue("id"))}, s.snapshotsOf(c)...) {
		if n != nil && n.hasName(r.PathValue("id")) && s.deleteFiles(r, n.namespace, n.id) == nil {
			return door.Reply(w, http.StatusNoContent, nil)
		}
	}
	if _, is := s.template(r.PathValue("id")); is {
		return door.Refuse(http.StatusForbidden, unsupported["templates"])
	}
	return door.Refuse(http.StatusNotFound, "snapshot not found")
}

// maxForks bounds the forks of one request.
const maxForks = 100

// fork starts sandboxes with copies of a sandbox's files and all of its settings.
func (s *Server) fork(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	q := struct{ Timeout, Count int64 }{defaultTimeout, 1}
	if err := decodeOptional(r, &q); err != nil {
		return err
	}
	if q.Timeout < 0 || q.Count < 1 || q.Count > maxForks {
		return door.Refuse(http.StatusBadRequest, "timeout must not be negative, and count from 1 to "+strconv.Itoa(maxForks))
	}
	id, err := s.copyFiles(r, b)
	if err != nil {
		return err
	}
	defer s.deleteFiles(r, b.Namespace, id)
	who, _ := identity.From(r.Context())
	internet, network := b.networkSettings()
	forks := make([]map[string]any, q.Count)
	for i := range forks {
		f := &Sandbox{Namespace: b.Namespace, Owner: who, Template: b.Template, Env: maps.Clone(b.Env), Metadata: maps.Clone(b.Metadata),
			runtime: b.runtime, autoPause: b.autoPause, internet: internet, network: network}
		if err := s.startNew(r, f, id, q.Timeout); err != nil {
			forks[i] = map[string]any{"error": map[string]any{"code": statusOf(err), "message": pipeline.PublicText(err)}}
			continue
		}
		forks[i] = map[string]any{"sandbox": s.connection(r, f)}
	}
	return door.Reply(w, http.StatusCreated, forks)
}
