package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Pause ends a session and its programs and interpreters, and keeps the files of its home directory for New.Files. No
// memory is kept. Its answer is the session's last [Info].
type Pause struct {
	Namespace, Session string
	// Memory means that the caller expects running programs to resume: Pause refuses while any run.
	Memory bool
}

func (q Pause) Subject() pipeline.Subject { return pipeline.About("session", q.Namespace, q.Session) }

func (q Pause) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[Info], error) {
	s, err := planKeeping(r, q.Namespace, q.Session, q.Memory)
	if err != nil {
		return nil, err
	}
	running := Programs(r.Pipeline, q.Namespace, q.Session)
	return &pipeline.Change[Info]{Task: pipeline.Task[Info]{Run: r, Stage: pipeline.StageBackend,
		Do: func(ctx context.Context) (last Info, _ error) {
			for _, program := range running {
				_ = program.Signal(syscall.SIGKILL)
				<-program.Done()
			}
			for _, c := range s.Contexts() {
				if err := s.EndContext(c.ID); err != nil {
					return last, err
				}
			}
			if err := keepFiles(ctx, r.Pipeline, s, &savedFiles{id: q.Session}); err != nil {
				return last, err
			}
			last, err := endSession(ctx, r, s, "paused")
			if err != nil {
				stateOf(r.Pipeline).paused.drop(q.Session)
			}
			return last, err
		}}, RowKind: "session.paused", Facts: pipeline.Facts{"session": q.Session}}, nil
}

// planKeeping finds a session whose files are to be kept. With memory it refuses while programs run.
func planKeeping(r *pipeline.Run, namespace, id string, memory bool) (*Session, error) {
	s, err := FindSession(r.Pipeline, namespace, id)
	if err != nil {
		return nil, err
	}
	info := s.Info()
	r.Outcome.Language, r.Outcome.Backend, r.Outcome.Profile, r.Leases = info.Language, info.Backend, info.Profile, s.Leases()
	if memory && (len(Programs(r.Pipeline, namespace, id)) > 0 || len(s.Contexts()) > 0 || !info.Bare ||
		s.Sandbox().Usage().Processes > idleProcesses) {
		return nil, pipeline.Refuse(pipeline.StageValidate, "programs are running in the session, and their memory can't be kept",
			"end them first, or keep only the files")
	}
	return s, nil
}

// Snapshot copies the files of the home directory of a session in which no program runs. New.Files can restore the
// copy any number of times, by the result's ID. It lasts until End of that ID, the longest lifetime of sessions, or
// the end of the server.
type Snapshot struct{ Namespace, Session string }

func (q Snapshot) Subject() pipeline.Subject {
	return pipeline.About("session", q.Namespace, q.Session)
}

func (q Snapshot) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	s, err := planKeeping(r, q.Namespace, q.Session, true)
	if err != nil {
		return nil, err
	}
	return &pipeline.Change[pipeline.NoAnswer]{Task: pipeline.Task[pipeline.NoAnswer]{Run: r, Stage: pipeline.StageBackend,
		Do: func(ctx context.Context) (pipeline.NoAnswer, error) {
			return pipeline.NoAnswer{}, keepFiles(ctx, r.Pipeline, s, &savedFiles{id: r.Outcome.ID, snapshot: true})
		}}, RowKind: "session.snapshot", Facts: pipeline.Facts{"session": q.Session, "snapshot": r.Outcome.ID}}, nil
}

// idleProcesses is the number of processes of a session in which no program runs: our init and our agent.
const idleProcesses = 2

// paused holds the files of paused sessions and snapshots. They have no names, so they vanish with the server, even
// if it is killed.
type paused struct {
	mu    sync.Mutex
	all   map[string]*savedFiles // by id
	bytes atomic.Int64
}

// savedFiles are the files of one session, as a tar.
type savedFiles struct {
	id       string // of the paused session, or of the snapshot
	snapshot bool
	info     Info
	file     *os.File
	size     int64
	sum      string // SHA-256 in hex
	timer    *time.Timer
	users    int  // number of sessions that are being started with the files
	dropped  bool // the last user closes the file
}

// keepFiles copies the home directory of a session to k. It fails if the files contain a secret of the session,
// because the next session could not redact it.
func keepFiles(ctx context.Context, p *pipeline.Pipeline, s *Session, k *savedFiles) error {
	k.info = s.Info()
	return WithAgent(ctx, p, k.info.Namespace, k.info.ID, "~", func(s *Session, c *guest.Client, home string) error {
		content, err := c.Pack(ctx, home, guest.AllLinks)
		if err != nil {
			return err
		}
		defer content.Close()
		in := &filling{Reader: content, all: &stateOf(p).paused.bytes, most: stateOf(p).manager.Bounds().PausedBytes}
		if k.file, k.size, k.sum, err = SpoolUnnamed(p, in, MaxTarSize(pipeline.BoundsOf(k.info.Limits).Disk), s.Leases()); err == nil {
			err = stateOf(p).paused.add(k, stateOf(p).manager.Bounds(), func() { forgetFiles(p, k.id, "lifetime") })
		}
		if err != nil {
			in.undo()
		}
		return err
	})
}

// filling counts content in the total of kept files while it is copied, so that concurrent copies share one limit.
type filling struct {
	io.Reader
	all  *atomic.Int64 // bytes of all kept files
	most int64         // maximum of all
	size int64         // bytes of this content so far
}

func (f *filling) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	f.size += int64(n)
	if all := f.all.Add(int64(n)); all > f.most {
		return 0, tooMany(f.most - (all - f.size))
	}
	return n, err
}

// undo subtracts this content from the total.
func (f *filling) undo() { f.all.Add(-f.size) }

func tooMany(most int64) error {
	return pipeline.Refuse(pipeline.StageBackend, fmt.Sprintf("the files exceed the %d MB left for paused files", max(0, most)>>20),
		"remove some of them")
}

// MaxTarSize returns the maximum size of a tar of so many bytes of files.
func MaxTarSize(disk int64) int64 { return 2*disk + 16<<20 }

// SpoolUnnamed copies content to an unnamed file of the server. It fails if content has more than most bytes, or a
// secret.
func SpoolUnnamed(p *pipeline.Pipeline, content io.Reader, most int64, leases vault.Leases) (f *os.File, size int64, sum string,
	err error) {
	dir, err := containment.TempDir(p.Config.Temp)
	if err != nil {
		return nil, 0, "", err
	}
	defer os.RemoveAll(dir)
	if f, err = os.Create(path.Join(dir, "file")); err != nil {
		return nil, 0, "", err
	}
	hashed, found := sha256.New(), false
	in := io.TeeReader(io.LimitReader(content, most+1), io.MultiWriter(f, hashed))
	if !p.Config.Artifacts.ShowSecrets && len(leases) > 0 {
		found, err = leases.ContainsSecret(in)
	}
	if err == nil && !found {
		_, err = io.Copy(io.Discard, in)
	}
	if err == nil && !found {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	switch {
	case err != nil:
	case found:
		err = pipeline.Refuse(pipeline.StageVault, "the files contain a secret", "remove it from them: programs get secrets by name")
	case size > most:
		err = tooMany(most)
	default:
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, 0, "", err
	}
	return f, size, hex.EncodeToString(hashed.Sum(nil)), nil
}

// add keeps files until they are dropped, or call expired when the longest lifetime is over.
func (s *paused) add(k *savedFiles, most Config, expired func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, other := range s.all {
		if other.info.Namespace == k.info.Namespace {
			n++
		}
	}
	if n >= most.PerNamespace {
		k.file.Close()
		return pipeline.Refuse(pipeline.StageBackend, fmt.Sprintf("the namespace has %d paused sessions and snapshots, the maximum", n),
			"end a paused session, or remove a snapshot")
	}
	s.all[k.id] = k
	k.timer = time.AfterFunc(most.Lifetime, expired)
	return nil
}

// borrowFiles keeps files open until returnFiles. Only one borrower at a time may use those of a paused session.
func (s *paused) borrowFiles(namespace, id string) *savedFiles {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.all[id]
	if k == nil || k.info.Namespace != namespace || k.users > 0 && !k.snapshot {
		return nil
	}
	k.users++
	return k
}

func (s *paused) returnFiles(k *savedFiles) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.users--
	k.release()
}

// release closes the file once it is dropped and unused.
func (k *savedFiles) release() {
	if k.dropped && k.users == 0 {
		k.file.Close()
	}
}

// drop forgets files, and reports whether they existed.
func (s *paused) drop(id string) (*savedFiles, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.all[id]
	if k == nil {
		return nil, false
	}
	delete(s.all, id)
	s.bytes.Add(-k.size)
	k.timer.Stop()
	k.dropped = true
	k.release()
	return k, true
}

// forgetFiles drops files, and records the reason.
func forgetFiles(p *pipeline.Pipeline, id, why string) {
	k, known := stateOf(p).paused.drop(id)
	if !known || p.Config.Audit == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pipeline.FinishTimeout)
	defer cancel()
	// there is no caller to get the error
	_ = p.RecordRow(ctx, sessionForgotten, id, k.info.Namespace, pipeline.Facts{"why": why, "bytes": k.size, "sha256": k.sum})
}

// sessionForgotten is the kind of row that records the loss of a paused session's files.
const sessionForgotten = "session.forgotten"

// PausedInfo returns the last Info of a paused session of a namespace.
func PausedInfo(p *pipeline.Pipeline, namespace, id string) (Info, bool) {
	k := stateOf(p).paused.findFiles(namespace, id)
	if k == nil || k.snapshot {
		return Info{}, false
	}
	return k.info, true
}

// HasSnapshot reports whether a namespace has a snapshot.
func HasSnapshot(p *pipeline.Pipeline, namespace, id string) bool {
	k := stateOf(p).paused.findFiles(namespace, id)
	return k != nil && k.snapshot
}

func (s *paused) findFiles(namespace, id string) *savedFiles {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.all[id]; k != nil && k.info.Namespace == pipeline.NamespaceOrDefault(namespace) {
		return k
	}
	return nil
}

// restore writes kept files into a new session, and ends the session if that fails.
func restore(ctx context.Context, r *pipeline.Run, info Info, k *savedFiles) error {
	err := WithAgent(ctx, r.Pipeline, info.Namespace, info.ID, "~", func(_ *Session, c *guest.Client, home string) error {
		content := VerifyHash(io.NewSectionReader(k.file, 0, k.size), func() string { return k.sum }, new(error))
		_, err := c.Unpack(ctx, home, guest.AllLinks, content)
		return err
	})
	if err != nil {
		_, _ = stateOf(r.Pipeline).manager.End(info.ID, "failed")
		return ErrorOf(pipeline.StageBackend, err)
	}
	if !k.snapshot {
		stateOf(r.Pipeline).paused.drop(k.id)
	}
	return nil
}
