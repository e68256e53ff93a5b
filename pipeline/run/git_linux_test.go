package run_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// forge is a git server, which is at several names. At those of private it wants a user and the token.
type forge struct {
	*testing.T
	dir     string
	token   string // that is leased
	paths   string // that the server takes
	private []string
	port    int
	roots   *x509.CertPool
	backend string // git's program that serves

	mu   sync.Mutex
	seen []string // host, user and password of each request that brought some
}

func newForge(t *testing.T, w *pipelinetest.Town, names, private []string) *forge {
	t.Helper()
	hosttest.Program(t, "git")
	out, _ := exec.Command("git", "--exec-path").Output()
	backend := hosttest.Program(t, filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"))
	f := &forge{T: t, dir: t.TempDir(), backend: backend, token: "ghp" + "_" + strings.Repeat("9xKq2Lw7Zv", 4)[:36], private: private}
	f.paths = f.token
	f.git("", "init", "-q", "--bare", "sub.git")
	f.git("", "init", "-q", "--bare", "top.git")
	for _, name := range []string{"sub", "top"} {
		f.git("", "clone", "-q", name+".git", name+"-work")
		f.git(name+"-work", "commit", "-q", "--allow-empty", "-m", "first of "+name)
		f.git(name+"-work", "push", "-q", "origin", "HEAD:refs/heads/main")
		f.git(name+".git", "symbolic-ref", "HEAD", "refs/heads/main")
		f.git(name+".git", "config", "http.receivepack", "true")
	}
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	f.port = l.Addr().(*net.TCPAddr).Port
	authority := tlstest.New(t, "forge")
	f.roots = authority.Pool()
	s := &http.Server{Handler: f, TLSConfig: &tls.Config{Certificates: []tls.Certificate{authority.Sign(x509.Certificate{DNSNames: names})}},
		ErrorLog: log.New(io.Discard, "", 0)}
	go s.ServeTLS(l, "", "")
	t.Cleanup(func() { s.Close() })
	for _, name := range names {
		w.Names[name] = netip.MustParseAddr("127.0.0.9")
	}
	return f
}

func (f *forge) git(dir string, args ...string) {
	f.Helper()
	cmd := exec.Command("git", append([]string{"-c", "init.defaultBranch=main", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c",
		"protocol.file.allow=always"}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(f.dir, dir), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// ServeHTTP redirects requests below /moved to the other host, where everybody may read.
func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	user, password, sent := r.BasicAuth()
	if auth := r.Header.Get("Authorization"); auth != "" {
		f.mu.Lock()
		f.seen = append(f.seen, strings.TrimSpace(fmt.Sprintf("%s %s %s", host, user, password)))
		f.mu.Unlock()
	}
	if rest, moved := strings.CutPrefix(r.URL.Path, "/moved"); moved {
		http.Redirect(w, r, "https://other.test:"+fmt.Sprint(f.port)+rest+"?"+r.URL.RawQuery, http.StatusFound)
		return
	}
	for _, name := range f.private {
		if name == host && (!sent || password != f.paths) {
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "who is there?", http.StatusUnauthorized)
			return
		}
	}
	(&cgi.Handler{Path: f.backend, Dir: f.dir, Env: []string{"GIT_PROJECT_ROOT=" + f.dir, "GIT_HTTP_EXPORT_ALL=1",
		"REMOTE_USER=" + user}}).ServeHTTP(w, r)
}

func (f *forge) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	return seen
}

// clean fails if the token is in a text or a directory.
func (f *forge) clean(what string, reported any, dir string) {
	f.Helper()
	text := fmt.Sprintf("%+v", reported)
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			content, _ := os.ReadFile(path)
			text += path + "\n" + string(content)
		}
		return nil
	})
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + f.token))
	for _, form := range []string{f.token, basic[24:50], base64.StdEncoding.EncodeToString([]byte(f.token))[:40]} {
		if i := strings.Index(text, form); i >= 0 {
			f.Errorf("%s: the token is in %.300s", what, text[max(0, i-200):])
		}
	}
}

// leasedStore has one secret, as a person has bound it.
type leasedStore struct {
	name, value string
	to          vault.Binding
}

func (s *leasedStore) Get(_ context.Context, _, key string) ([]byte, vault.Binding, error) {
	if key != s.name {
		return nil, vault.Binding{}, vault.ErrNotFound
	}
	return []byte(s.value), s.to, nil
}

// gitScript clones, fetches and pushes, and then leaves all that git knows where it can be looked at.
const gitScript = `
set -e
export HOME=/workspace/home; mkdir -p $HOME
git config --global user.name t; git config --global user.email t@example.com
run() { echo "== $1"; shift; "$@" 2>&1; }
run clone git clone -q "$FORGE/top.git" top
run push bash -c 'cd top && date +%N > new && git add new && git commit -q -m new && git push -q origin HEAD:refs/heads/main'
run fetch git -C top fetch
run submodule bash -c 'cd top && git submodule --quiet add "$FORGE/sub.git" sub && git commit -q -m sub && git push -q origin HEAD:refs/heads/main'
run recursive git clone -q --recurse-submodules "$FORGE/top.git" again
run traced env GIT_TRACE_CURL=1 GIT_TRACE_REDACT=0 git ls-remote "$FORGE/top.git"
test -f again/sub/.git
(env; cat top/.git/config) > known
git -C again/sub log --format=%s
echo done well
`

func TestGitUsesBoundSecrets(t *testing.T) {
	names := []string{"git.test", "sub.git.test", "other.test"}
	for _, test := range []struct {
		name, host, bound string
		require           bool
		session           bool
	}{
		{"helper", "git.test", "git.test:%d", false, false},
		{"required", "git.test", "git.test:%d", true, false},
		{"wildcard", "sub.git.test", "*.git.test:%d", false, false},
		{"session", "git.test", "git.test:%d", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := &leasedStore{name: "GITHUB_TOKEN"}
			p, _, _, w := pipelinetest.NewTown(t, nil, func(c *pipeline.Config) { c.Vault = vault.New(store) })
			f := newForge(t, w, names, []string{"git.test", "sub.git.test"})
			store.value, store.to = f.token, vault.Binding{Hosts: []string{fmt.Sprintf(test.bound, f.port)}, Require: test.require}
			p.Config.Egress = w.Egress(t, []string{fmt.Sprintf("git.test:%d", f.port), fmt.Sprintf("*.git.test:%d", f.port)})
			p.Config.Egress.Roots = f.roots
			q := run.Request{Language: "shell", Code: []byte(gitScript), Reach: run.Reach{Secrets: []string{"GITHUB_TOKEN"}}, Artifacts: t.TempDir(),
				Env: []string{fmt.Sprintf("FORGE=https://%s:%d", test.host, f.port)}}
			if test.session {
				q.Session, q.Language = pipelinetest.Open(t, p, session.New{Language: "shell"}).ID, ""
			}
			_, res, err := pipeline.Do(t.Context(), p, q)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(res.Stdout, "first of sub\ndone well") {
				t.Errorf("%s\n%s", res.Stdout, res.Stderr)
			}
			seen := f.took()
			if len(seen) == 0 {
				t.Error("no request had credentials")
			}
			for _, s := range seen {
				if s != test.host+" x-access-token "+f.token {
					t.Errorf("the server got %q", s)
				}
			}
			for _, a := range res.Artifacts {
				if a.Withheld != "" {
					t.Errorf("the token was inside: %s is withheld", a.Name)
				}
			}
			f.clean(test.name, res, q.Artifacts)
		})
	}
}

// A wrong token is git's own error, at once; and other hosts, also those that one redirects to, get none.
func TestGitTellsOthersNothing(t *testing.T) {
	for _, require := range []bool{false, true} {
		t.Run(fmt.Sprintf("require %v", require), func(t *testing.T) {
			t.Parallel()
			store := &leasedStore{name: "GITHUB_TOKEN"}
			p, _, _, w := pipelinetest.NewTown(t, nil, func(c *pipeline.Config) { c.Vault = vault.New(store) })
			f := newForge(t, w, []string{"git.test", "other.test", "wants.test"}, []string{"git.test", "wants.test"})
			store.value, store.to = f.token, vault.Binding{Hosts: []string{fmt.Sprintf("git.test:%d", f.port)}, Require: require}
			p.Config.Egress = w.Egress(t, []string{fmt.Sprintf("*.test.example:%d", f.port)})
			p.Config.Egress.Roots = f.roots
			try := func(url string) (pipeline.Outcome, []string) {
				t.Helper()
				_, res, err := pipeline.Do(t.Context(), p, run.Request{Language: "shell", Reach: run.Reach{Secrets: []string{"GITHUB_TOKEN"},
					Typed: true, Allow: []string{fmt.Sprintf("git.test:%d", f.port), fmt.Sprintf("other.test:%d", f.port),
						fmt.Sprintf("wants.test:%d", f.port)}},
					Code: []byte("git -c http.sslVerify=false clone -q " + url + " copy 2>&1; ls copy/.git/HEAD")})
				if err != nil {
					t.Fatal(err)
				}
				f.clean(url, res, t.TempDir())
				return res, f.took()
			}
			if res, seen := try(fmt.Sprintf("https://other.test:%d/top.git", f.port)); !strings.Contains(res.Stdout, "copy/.git/HEAD") ||
				len(seen) > 0 {
				t.Errorf("another host: %s, it got %q", res.Stdout, seen)
			}
			res, seen := try(fmt.Sprintf("https://wants.test:%d/top.git", f.port))
			if !strings.Contains(res.Stdout, "terminal prompts disabled") || len(seen) > 0 {
				t.Errorf("another host that wants credentials: %s, it got %q", res.Stdout, seen)
			}
			res, seen = try(fmt.Sprintf("https://git.test:%d/moved/top.git", f.port))
			for _, s := range seen {
				if strings.HasPrefix(s, "other.test") && (!require || strings.Contains(s, f.token) || !strings.Contains(s, "sandboxmcp_")) {
					t.Errorf("redirected: it got %q", s)
				}
			}
			if !strings.Contains(res.Stdout, "copy/.git/HEAD") {
				t.Errorf("redirected: %s", res.Stdout)
			}
			f.paths = "another"
			res, _ = try(fmt.Sprintf("https://git.test:%d/top.git", f.port))
			if !strings.Contains(res.Stdout, "Authentication failed for 'https://git.test") || res.ExitCode == 0 {
				t.Errorf("a wrong token: %s", res.Stdout)
			}
		})
	}
}
