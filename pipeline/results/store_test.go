package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, c Config) *Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = filepath.Join(t.TempDir(), "results")
	}
	s, err := Open(c)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

var (
	idMu   sync.Mutex
	idTime = uint64(1e12)
)

// newID returns ids of which each is newer than the one before.
func newID() string {
	idMu.Lock()
	defer idMu.Unlock()
	idTime++
	return ulid.MustNew(idTime, ulid.DefaultEntropy()).String()
}

// save puts a file where the signer would.
func save(t testing.TB, s *Store, id, name, content string) signer.Artifact {
	t.Helper()
	path := filepath.Join(s.ArtifactDir(id), name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
	return signer.Artifact{Name: name, Size: int64(len(content)), SHA256: "00", MIME: "text/plain"}
}

func small(id string) Record {
	return Record{
		ID: id, Namespace: "team", Session: "s", Language: "python", Name: "a.py", End: backends.End{Ended: "exit", ExitCode: 3},
		Time: time.Unix(1e9, 5).UTC(), Result: json.RawMessage(`{"a":1}`), Stdout: "out \xff", Stderr: "err",
		StdoutCut: 7, StderrCut: 8, Artifacts: []signer.Artifact{{Name: "x", Size: 1, SHA256: "00", MIME: "m", Withheld: "a secret is in it"}},
	}
}

func large(id string) Record {
	r := small(id)
	r.Stdout = strings.Repeat("0123456789", 10_000)
	r.Name = "a\xff.py"
	return r
}

func TestPutGet(t *testing.T) {
	s := openStore(t, Config{})
	for name, r := range map[string]Record{
		"small": small(newID()),
		"large": large(newID()),
		"empty": {ID: newID(), Time: time.Unix(0, 0).UTC()},
		"saved": func() Record {
			r := small(newID())
			r.Artifacts = append(r.Artifacts, save(t, s, r.ID, "sub/b\xfe\n", "b"))
			return r
		}(),
		"large result": func() Record {
			r := small(newID())
			r.Result = json.RawMessage(`"` + strings.Repeat("x", maxWeight) + `"`)
			return r
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			must(t, s.Save(t.Context(), r))
			for _, id := range []string{r.ID, strings.ToLower(r.ID)} {
				got, err := s.Get(id)
				if diff := cmp.Diff(r, got); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
			_, err := os.Stat(filepath.Join(s.c.Dir, r.ID))
			if onDisk := err == nil; onDisk != (name != "small" && name != "empty") {
				t.Errorf("on disk: %v", onDisk)
			}
			r.ExitCode++
			must(t, s.Save(t.Context(), r))
			if got, _ := s.Get(r.ID); got.ExitCode != r.ExitCode {
				t.Error("the second record did not take the first one's place")
			}
		})
	}
}

// The caller owns the returned values.
func TestCopies(t *testing.T) {
	s := openStore(t, Config{})
	r := small(newID())
	must(t, s.Save(t.Context(), r))
	want, _ := s.Get(r.ID)
	r.Result[0], r.Artifacts[0].Name = 'X', "changed"
	got, _ := s.Get(r.ID)
	got.Result[0], got.Artifacts[0].Name = 'X', "changed"
	s.List(Filter{})[0].Artifacts[0].Name = "changed"
	got, _ = s.Get(r.ID)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestIDs(t *testing.T) {
	s := openStore(t, Config{})
	must(t, os.WriteFile(filepath.Join(s.c.Dir, "..", "secret"), []byte("s"), 0o600))
	for _, id := range []string{"", "..", "../secret", "/etc", "01K9ZB5W7Q3M8Y2D4F6H8J0K2", "01K9ZB5W7Q3M8Y2D4F6H8J0K2/",
		"8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"01K9ZB5W7Q3M8Y2D4F6H8J0K2\x00", "../../../../../../etc/pass", newID()} {
		if _, err := s.Get(id); !errors.Is(err, ErrUnknown) {
			t.Errorf("Get %q: %v", id, err)
		}
		if _, err := s.Read(id, "stdout", 0, 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("Read %q: %v", id, err)
		}
		if _, valid := ulid.ParseStrict(id); valid == nil {
			continue
		}
		if err := s.Save(t.Context(), Record{ID: id}); err == nil {
			t.Errorf("Put %q: no error", id)
		}
		if dir := s.ArtifactDir(id); dir != "" {
			t.Errorf("ArtifactDir %q: %s", id, dir)
		}
	}
}

func TestList(t *testing.T) {
	s := openStore(t, Config{})
	var ids []string
	for i := range 6 {
		r := small(newID())
		if i%2 == 0 {
			r = large(r.ID)
		}
		r.Namespace, r.Session = fmt.Sprint("ns", i/3), fmt.Sprint("s", i%3)
		must(t, s.Save(t.Context(), r))
		ids = append(ids, r.ID)
	}
	must(t, os.MkdirAll(s.ArtifactDir(newID()), 0o755)) // a run that has not ended
	must(t, os.WriteFile(filepath.Join(s.c.Dir, newID()), nil, 0o600))
	broken := large(newID())
	must(t, s.Save(t.Context(), broken))
	must(t, os.WriteFile(filepath.Join(s.c.Dir, broken.ID, metadataName), []byte("{"), 0o600))
	for _, tt := range []struct {
		name string
		f    Filter
		want []int
	}{
		{"all", Filter{}, []int{5, 4, 3, 2, 1, 0}},
		{"limit", Filter{Limit: 3}, []int{5, 4, 3}},
		{"namespace", Filter{Namespace: "ns0"}, []int{2, 1, 0}},
		{"namespace and limit", Filter{Namespace: "ns0", Limit: 1}, []int{2}},
		{"session", Filter{Session: "s1"}, []int{4, 1}},
		{"both", Filter{Namespace: "ns1", Session: "s1"}, []int{4}},
		{"none", Filter{Namespace: "nobody"}, nil},
	} {
		var got []int
		for _, r := range s.List(tt.f) {
			got = append(got, slices.Index(ids, r.ID))
			if r.Stdout+r.Stderr+string(r.Result) != "" || r.Language != "python" || len(r.Artifacts) != 1 {
				t.Errorf("%s: %+v", tt.name, r)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if _, err := s.Get(broken.ID); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("a damaged record: %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := openStore(t, Config{})
	s.maxRuns = 10
	var ids []string
	for range 25 {
		r := small(newID())
		must(t, s.Save(t.Context(), r))
		ids = append(ids, r.ID)
	}
	if got := s.List(Filter{}); len(got) != 10 || got[9].ID != ids[15] {
		t.Errorf("%d runs are left, want the last 10", len(got))
	}
	heavy := openStore(t, Config{})
	for range 2 * maxMemory / maxWeight {
		r := small(newID())
		r.Result = json.RawMessage(strings.Repeat(" ", maxWeight-2000))
		must(t, heavy.Save(t.Context(), r))
	}
	if n := len(heavy.List(Filter{})); heavy.memory.weight > maxMemory || n < 200 || n == 2*maxMemory/maxWeight {
		t.Errorf("%d runs of %d bytes are in memory", n, heavy.memory.weight)
	}
	for len(heavy.memory.order) > 0 {
		heavy.memory.drop(heavy.memory.order[len(heavy.memory.order)/2])
	}
	if heavy.memory.weight != 0 || len(heavy.memory.runs) != 0 {
		t.Errorf("%d bytes of nothing", heavy.memory.weight)
	}
}

func TestAgeInMemory(t *testing.T) {
	s := openStore(t, Config{MaxAge: time.Hour})
	now := time.Now()
	s.now = func() time.Time { return now }
	old, young := small(newID()), small(newID())
	must(t, s.Save(t.Context(), old))
	now = now.Add(50 * time.Minute)
	must(t, s.Save(t.Context(), young))
	now = now.Add(11 * time.Minute)
	if _, err := s.Get(old.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := s.Get(young.ID); err != nil {
		t.Errorf("the young one: %v", err)
	}
}

func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	must(t, os.Mkdir(dir, 0o777))
	s := openStore(t, Config{Dir: dir})
	r := large(newID())
	save(t, s, r.ID, "a", "a")
	must(t, s.Save(t.Context(), r))
	for name, want := range map[string]os.FileMode{"": 0o700, r.ID: 0o700, r.ID + "/stdout": 0o600, r.ID + "/run.json": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v, want mode %v", name, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, r.ID, ".sandboxmcp-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// A command line reads results that a server wrote, while and after the server runs. Small runs are the server's own.
func TestTwoProcesses(t *testing.T) {
	server := openStore(t, Config{})
	reader := openStore(t, Config{Dir: server.c.Dir})
	mem, disk := small(newID()), large(newID())
	must(t, server.Save(t.Context(), mem))
	must(t, server.Save(t.Context(), disk))
	if _, err := reader.Get(mem.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("a run in the other one's memory: %v", err)
	}
	must(t, server.Close())
	got, err := reader.Get(disk.ID)
	if diff := cmp.Diff(disk, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if err := server.Save(t.Context(), disk); err == nil {
		t.Error("a closed store took something")
	}
	if _, err := server.Get(mem.ID); err == nil {
		t.Error("a closed store has something in memory")
	}
	must(t, server.Close())
}

func TestCancelled(t *testing.T) {
	s := openStore(t, Config{})
	r := large(newID())
	save(t, s, r.ID, "a", "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Save(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantEmpty(t, s)
}

func wantEmpty(t *testing.T, s *Store) {
	t.Helper()
	entries, err := os.ReadDir(s.c.Dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("%v, %v, want an empty directory", entries, err)
	}
}

// The state directory was removed while the server ran.
func TestDirectoryVanishes(t *testing.T) {
	s := openStore(t, Config{})
	must(t, os.RemoveAll(s.c.Dir))
	if got := s.List(Filter{}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	r := large(newID())
	must(t, s.Save(t.Context(), r))
	if _, err := s.Get(r.ID); err != nil {
		t.Error(err)
	}
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{"", file, filepath.Join(file, "sub")} {
		if s, err := Open(Config{Dir: dir}); err == nil {
			s.Close()
			t.Errorf("%q: no error", dir)
		}
	}
}

// Many goroutines put, read, list and prune at once; the race detector watches. A result that was put and not pruned is
// whole.
func TestConcurrent(t *testing.T) {
	s := openStore(t, Config{MaxBytes: 2 << 20})
	s.maxRuns = 20
	other := openStore(t, Config{Dir: s.c.Dir, MaxBytes: 2 << 20})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 30 {
				r := small(newID())
				if (i+j)%2 == 0 {
					r = large(r.ID)
				}
				if err := s.Save(t.Context(), r); err != nil {
					t.Error(err)
				}
				for _, from := range []*Store{s, other} {
					got, err := from.Get(r.ID)
					if err == nil && got.Stdout != r.Stdout || err != nil && !errors.Is(err, ErrUnknown) {
						t.Errorf("%d bytes, %v", len(got.Stdout), err)
					}
				}
				if p, err := s.Read(r.ID, "stdout", 0, 3); err == nil && string(p.Data) != r.Stdout[:3] || err != nil && !errors.Is(err, ErrUnknown) {
					t.Errorf("%q, %v", p.Data, err)
				}
				other.List(Filter{Limit: 5})
				if j%10 == 0 {
					other.prune()
				}
			}
		})
	}
	all.Wait()
}
