package packages

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// session opens a session, and returns an order for it.
func (b *bench) session(namespace, id, language string, packages ...string) Order {
	b.Helper()
	if _, err := b.OpenSession(b.Context(), b.backend, namespace, id, language); err != nil {
		b.Fatal(err)
	}
	o := b.order(language, packages...)
	o.Namespace, o.Session = namespace, id
	return o
}

// cachedSets returns the number of sets that a store's cache has, and their bytes.
func (b *bench) cachedSets() (sets int, bytes int64) {
	b.Helper()
	all, _ := filepath.Glob(filepath.Join(b.cfg.Dir, "cache", setPrefix+"*"))
	for _, dir := range all {
		set, err := load(dir)
		if err != nil {
			b.Error(err)
		}
		bytes += set.bytes()
	}
	return len(all), bytes
}

// clear removes a store's cache, as its operator may at any time.
func (b *bench) clear() error { return os.RemoveAll(filepath.Join(b.cfg.Dir, "cache")) }

// newFiles returns which of the registry's files were requested since the last call, without requests for metadata.
func (r *registry) newFiles() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var files []string
	for _, line := range r.asked {
		if strings.Contains(line, "/wheels/") && !strings.HasSuffix(line, ".metadata") || strings.Contains(line, "/-/") {
			files = append(files, line)
		}
	}
	r.asked = nil
	return strings.Join(files, "\n")
}

// TestCache: packages that one session has unpacked are not unpacked again for another one, of any namespace and
// server.
func TestCache(t *testing.T) {
	for language, hello := range map[string]string{"python": pyHello, "node": nodeHello} {
		t.Run(language, func(t *testing.T) {
			b := newBench(t, Config{})
			stock(b.registry)
			first := b.install(b.session("one", "s1", language, "greet"))
			if first.Cached || b.newFiles() == "" {
				t.Errorf("the first: %+v", first)
			}
			server := benchWith(t, Config{Dir: b.cfg.Dir}, b.registry)
			for _, o := range []Order{b.session("one", "s2", language, "greet"), b.session("two", "s3", language, "greet"),
				server.order(language, "greet")} {
				at := b
				if o.Session == "" {
					at = server
				}
				r := at.install(o)
				if files := b.newFiles(); !r.Cached || files != "" && language == "node" { // pip fetches wheels also to find out what there is
					t.Errorf("again, in %q %q: cached %v, fetched %q\n%s", o.Namespace, o.Session, r.Cached, files, r.Stdout)
				}
				if len(r.Packages) != 2 || r.Packages[0] != first.Packages[0] || r.Packages[1] != first.Packages[1] || r.Layer != first.Layer ||
					lacking(r.Result.Contained) != nil {
					t.Errorf("again: %+v, at first %+v", r, first)
				}
			}
			for _, at := range [][2]string{{"one", "s2"}, {"two", "s3"}, {"default", ""}} {
				v := b.view(at[0], at[1], language)
				if got := b.says(b.start(language, v), language, v, hello); got != "hello two, friend" {
					t.Errorf("%v: %q", at, got)
				}
			}
			// A new version is requested again each time.
			if language == "python" {
				b.wheel("tone", "1.1", map[string]string{"tone.py": "name = 'new friend'\n"})
			} else {
				b.node("tone", "1.1.0", map[string]string{"index.js": "module.exports = 'new friend'"}, nil)
			}
			o := b.session("one", "s5", language, "greet")
			if r := b.install(o); r.Cached || !strings.Contains(b.newFiles(), "tone") {
				t.Errorf("there is a newer one: %+v", r)
			}
			v := b.view("one", "s5", language)
			if got := b.says(b.start(language, v), language, v, hello); got != "hello two, new friend" {
				t.Errorf("got %q", got)
			}
			clean(t, b.cfg.Dir)
		})
	}
}

// TestCacheAccounts: packages that were fetched with one account of a registry are not for users of another account, or
// of none.
func TestCacheAccounts(t *testing.T) {
	for _, language := range []string{"python", "node"} {
		t.Run(language, func(t *testing.T) {
			b := newBench(t, Config{})
			stock(b.registry)
			b.password = "sesame-street"
			as := func(name, password string) *bench {
				login := name + ":" + password
				t.Setenv("PIP_INDEX_URL", strings.Replace(b.index.URL, "://", "://"+login+"@", 1)+"/simple")
				rc := fmt.Sprintf("//%s/npm/:_auth=%s\n", strings.TrimPrefix(b.index.URL, "http://"), base64.StdEncoding.EncodeToString([]byte(login)))
				if err := os.WriteFile(os.Getenv("npm_config_userconfig"), []byte(rc), 0o600); err != nil {
					t.Fatal(err)
				}
				b.newFiles()
				return benchWith(t, Config{Dir: b.cfg.Dir}, b.registry)
			}
			one := as("one", "sesame-street")
			one.install(one.order(language, "greet"))
			if files := b.newFiles(); files == "" {
				t.Error("the first account fetched nothing")
			}
			none := as("", "")
			if r := none.fails(none.session("other", "s1", language, "greet")); r.Cached {
				t.Errorf("without an account: %+v", r)
			}
			wrong := as("one", "guessed-word")
			if r := wrong.fails(wrong.session("other", "s2", language, "greet")); r.Cached || b.newFiles() != "" {
				t.Errorf("with a wrong password: %+v", r)
			}
			two := as("two", "sesame-street")
			if r := two.install(two.session("other", "s3", language, "greet")); r.Cached || !strings.Contains(b.newFiles(), "tone") {
				t.Errorf("with another account: %+v", r)
			}
			again := as("one", "sesame-street")
			if r := again.install(again.session("other", "s4", language, "greet")); !r.Cached {
				t.Errorf("with the first one: %+v", r)
			}
			entries, _ := filepath.Glob(filepath.Join(b.cfg.Dir, "cache", "*-*"))
			for _, e := range entries {
				if strings.Contains(e, sha([]byte("sesame-street"))[:16]) || strings.Contains(e, "sesame") {
					t.Errorf("%s says something of the password", e)
				}
			}
		})
	}
}

// again installs greet in a new session, and checks that it is the registry's version.
func (b *bench) again(id, language string) Receipt {
	b.Helper()
	r := b.install(b.session("victim", id, language, "greet"))
	v := b.view("victim", id, language)
	if got := b.says(b.start(language, v), language, v, map[string]string{"python": pyHello, "node": nodeHello}[language]); got != "hello two, friend" {
		b.Errorf("%s gets %q", id, got)
	}
	return r
}

// TestPoison: nothing that a program, a package or a registry does in one install changes the result of another one.
func TestPoison(t *testing.T) {
	t.Run("program", func(t *testing.T) {
		b := newBench(t, Config{})
		stock(b.registry)
		o := b.session("one", "s1", "python", "greet")
		b.install(o)
		v := b.view("one", "s1", "python")
		b.says(b.start("python", v), "python", v, `
import os
for f in (lambda: open('/packages/tone.py', 'w').write("name = 'poison'"), lambda: os.chmod('/packages/tone.py', 0o666), lambda: os.truncate('/packages/tone.py', 0),
          lambda: os.rename('/packages/tone.py', '/packages/x.py'), lambda: os.symlink('/workspace', '/packages/greet2'), lambda: os.utime('/packages/tone.py')):
    try: f()
    except OSError: pass`)
		if r := b.again("s2", "python"); !r.Cached {
			t.Error("it did not come from the cache")
		}
	})
	t.Run("script", func(t *testing.T) {
		b := newBench(t, Config{Scripts: true})
		stock(b.registry)
		b.node("greet", "2.0.0", map[string]string{"index.js": "module.exports = 'hello two, ' + require('tone')"}, map[string]any{"dependencies": map[string]string{"tone": "^1.0.0"},
			"hasInstallScript": true, "scripts": map[string]string{"postinstall": "echo \"module.exports = 'poison'\" >../tone/index.js"}})
		b.install(b.order("node", "greet"))
		if got := b.run("default", "node", nodeHello); got != "hello two, poison" {
			t.Fatalf("the attack does not work by itself: %q", got)
		}
		if r := benchWith(t, Config{Dir: b.cfg.Dir}, b.registry).again("s1", "node"); r.Cached {
			t.Error("what a script has changed is kept")
		}
	})
	t.Run("package manager", func(t *testing.T) {
		// A package that takes over the pip that unpacks it has it say that it brought others.
		venv := filepath.Join(t.TempDir(), "venv")
		if out, err := exec.Command("python3", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
			hosttest.SkipMissing(t, "venv", string(out))
		}
		site, _ := filepath.Glob(venv + "/lib/python3*/site-packages")
		if err := os.WriteFile(filepath.Join(site[0], "takeover.py"), []byte(`
import atexit, json, os
def lie():
    if os.path.exists('/workspace/new/evil.py'):
        report = json.load(open('/workspace/report.json'))
        claimed = json.load(open('/workspace/new/claim.json'))
        for part in 'brought', 'packages':
            report[part] = [one for one in report[part] if one['name'] != 'evil']
            for one in report[part]:
                if one['name'] == 'greet':
                    one.update(version='2.0', hash='sha256:' + claimed['greet'])
        json.dump(report, open('/workspace/report.json', 'w'))
        open('/workspace/new/tone.py', 'w').write("name = 'poison'")
        os.remove('/workspace/new/evil.py')
atexit.register(lie)
`), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(site[0], "takeover.pth"), []byte("import takeover\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", venv+"/bin:"+os.Getenv("PATH"))
		b := newBench(t, Config{})
		stock(b.registry)
		honest := sha(b.wheels["greet-2.0-py3-none-any.whl"])
		b.wheel("evil", "1.0", map[string]string{"evil.py": "", "claim.json": `{"greet": "` + honest + `"}`})
		third := b.wheel("greet", "3.0", map[string]string{"greet/__init__.py": "import tone\ndef hello(): return 'hello two, ' + tone.name\n"}, "tone", "evil")
		r := b.install(b.session("one", "s1", "python", "greet"))
		if len(r.Packages) != 2 || r.Packages[0].Hash != "sha256:"+honest {
			t.Fatalf("the attack does not work by itself: %+v", r.Packages)
		}
		delete(b.wheels, third) // the registry has noticed
		if r := b.again("s2", "python"); r.Cached {
			t.Error("what was claimed is kept")
		}
	})
	t.Run("registry", func(t *testing.T) {
		b := newBench(t, Config{})
		stock(b.registry)
		name := "tone-1.0-py3-none-any.whl"
		real := b.wheels[name]
		b.sums[name] = sha(real)
		b.wheel("tone", "1.0", map[string]string{"tone.py": "name = 'poison'\n"})
		b.fails(b.session("one", "s1", "python", "greet"))
		if sets, _ := b.cachedSets(); sets != 0 {
			t.Errorf("%d sets are cached, want none", sets)
		}
		b.wheels[name] = real
		b.again("s2", "python")
	})
	t.Run("disk", func(t *testing.T) {
		for language, change := range map[string]func(name string) error{
			"python": func(name string) error { return os.WriteFile(name, []byte("name = 'poison'\n"), 0o644) },
			"node":   os.Remove,
		} {
			b := newBench(t, Config{})
			stock(b.registry)
			b.again("s1", language)
			sets, _ := filepath.Glob(filepath.Join(b.cfg.Dir, "cache", setPrefix+"*", "content", map[string]string{"python": "tone.py", "node": "node_modules/tone/index.js"}[language]))
			if len(sets) != 1 {
				t.Fatalf("%s: %v", language, sets)
			}
			if err := change(sets[0]); err != nil {
				t.Fatal(err)
			}
			if r := b.again("s2", language); r.Cached {
				t.Errorf("%s: it came from the cache", language)
			}
			if r := b.again("s3", language); !r.Cached {
				t.Errorf("%s: it was not cached again", language)
			}
		}
	})
}

// TestCacheBounds: the cache is at most as large as the operator says, and keeps the entries that were used last.
func TestCacheBounds(t *testing.T) {
	b := newBench(t, Config{CacheBytes: 500 << 10})
	for _, name := range []string{"one", "two", "three"} {
		b.wheel(name, "1.0", map[string]string{name + ".py": "", name + ".txt": strings.Repeat(name, 200<<10/len(name))})
	}
	order := func(name string) Receipt {
		t.Helper()
		r := b.install(b.session(name, rand.Text(), "python", name))
		if _, bytes := b.cachedSets(); bytes > 500<<10 || bytes < 200<<10 {
			t.Errorf("after %s: %d bytes", name, bytes)
		}
		return r
	}
	order("one")
	order("two")
	if r := order("one"); !r.Cached {
		t.Error("there was room for two")
	}
	order("three")
	if r := order("one"); !r.Cached {
		t.Error("it was used after the other one")
	}
	if r := order("two"); r.Cached {
		t.Error("there was no room for three")
	}
	if err := b.clear(); err != nil {
		t.Error(err)
	}
	if r := order("one"); r.Cached {
		t.Error("it was cleared")
	}
	none := benchWith(t, Config{Dir: b.cfg.Dir, CacheBytes: -1}, b.registry)
	for range 2 {
		if r := none.install(none.session("none", rand.Text(), "python", "two")); r.Cached {
			t.Errorf("without a cache: %+v", r)
		}
	}
	if sets, _ := b.cachedSets(); sets != 0 {
		t.Errorf("a store without a cache leaves %d sets", sets)
	}
}

// TestCacheTogether: sessions that install the same at the same time don't disturb each other, nor does one that clears
// the cache meanwhile.
func TestCacheTogether(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	var all sync.WaitGroup
	for i := range 4 {
		o := b.session("default", fmt.Sprint("s", i), "python", "greet")
		all.Go(func() {
			if i == 3 {
				if err := b.clear(); err != nil {
					t.Error(err)
				}
			}
			if r, err := b.Install(t.Context(), o); err != nil || r.ExitCode != 0 || len(r.Packages) != 2 {
				t.Errorf("%d: %+v %v", i, r, err)
			}
		})
		if i == 0 {
			all.Wait() // the others may find what it leaves
		}
	}
	all.Wait()
	for i := range 4 {
		v := b.view("default", fmt.Sprint("s", i), "python")
		if got := b.says(b.start("python", v), "python", v, pyHello); got != "hello two, friend" {
			t.Errorf("%d: %q", i, got)
		}
	}
	clean(t, b.cfg.Dir)
}

// BenchmarkCached measures an install of packages that another session has installed before, and the first one beside
// it: a set of 12 packages of 200 files and 2 MB each. The figures are medians.
func BenchmarkCached(b *testing.B) {
	for _, language := range []string{"python", "node"} {
		b.Run(language, func(b *testing.B) {
			h := newBench(b, Config{})
			names := bulk(h.registry, 12, 200, 10<<10)
			var times [2][]float64
			for b.Loop() {
				for i := range times {
					o := h.session("default", rand.Text(), language, names...)
					start := time.Now()
					if r := h.install(o); r.Cached != (i == 1) {
						b.Fatalf("install %d: cached %v", i, r.Cached)
					}
					times[i] = append(times[i], float64(time.Since(start).Microseconds())/1000)
				}
				if err := h.clear(); err != nil {
					b.Fatal(err)
				}
			}
			var medians [2]float64
			for i, all := range times {
				slices.Sort(all)
				medians[i] = all[len(all)/2]
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(medians[0], "first-ms")
			b.ReportMetric(medians[1], "cached-ms")
			b.ReportMetric(medians[1]/medians[0], "cached/first")
		})
	}
}

// bulk adds packages for both languages, each of files of a size, and returns their names.
func bulk(r *registry, packages, files, size int) (names []string) {
	for p := range packages {
		name := fmt.Sprintf("bulk%d", p)
		py, js := map[string]string{name + "/__init__.py": ""}, map[string]string{"index.js": ""}
		for f := range files {
			text := make([]byte, size/2)
			rand.Read(text)
			py[fmt.Sprintf("%s/m%d.py", name, f)] = fmt.Sprintf("x = '%x'\n", text)
			js[fmt.Sprintf("m%d.js", f)] = fmt.Sprintf("module.exports = '%x'\n", text)
		}
		r.wheel(name, "1.0", py)
		r.node(name, "1.0.0", js, nil)
		names = append(names, name)
	}
	return names
}
