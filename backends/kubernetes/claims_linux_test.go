package kubernetes

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// agentSandbox names a directory with the source of kubernetes-sigs/agent-sandbox, and in it the program agent-sandbox-controller
// that was built of it.
var agentSandbox = os.Getenv("SANDBOXMCP_TEST_AGENT_SANDBOX")

// withAgents installs agents.x-k8s.io in the cluster for a test: its own definitions, and its own controller, beside the node. The
// node maps no users: a runtime class that is but a name stands for one with a kernel for each pod. So tests start few pods.
func withAgents(t testing.TB, c Config) Config {
	t.Helper()
	program := filepath.Join(agentSandbox, "agent-sandbox-controller")
	if _, err := os.Stat(program); agentSandbox == "" || err != nil {
		hosttest.Missing(t, "agent-sandbox", "SANDBOXMCP_TEST_AGENT_SANDBOX names no directory with agent-sandbox-controller")
	}
	api := apiOf(t, c)
	files, err := filepath.Glob(filepath.Join(agentSandbox, "k8s/crds/*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("definitions: %q, %v", files, err)
	}
	for _, file := range files {
		define(t, api, file)
	}
	controller := exec.Command(program, "--extensions", "--enable-webhook=false", "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	controller.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	controller.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(t.TempDir(), "controller.log"))
	if err != nil {
		t.Fatal(err)
	}
	controller.Stdout, controller.Stderr = log, log
	if err := controller.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		controller.Process.Kill()
		controller.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the controller's last words: %s", text[max(0, len(text)-4000):])
		}
		log.Close()
	})
	c.AgentSandbox, c.Ahead, c.RuntimeClass = AgentAlways, 1, c.Namespace
	class := map[string]any{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": map[string]any{"name": c.RuntimeClass}, "handler": "runc"}
	if err := api.do(t.Context(), http.MethodPost, "/apis/node.k8s.io/v1/runtimeclasses", nil, class, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.do(context.Background(), http.MethodDelete, "/apis/node.k8s.io/v1/runtimeclasses/"+c.RuntimeClass, nil, nil, nil); err != nil {
			t.Error(err)
		}
	})
	return c
}

// define makes one definition for the time of a test, of the newest version alone: no server is there to convert others.
func define(t testing.TB, api *client, file string) {
	t.Helper()
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := yaml.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	spec := o["spec"].(map[string]any)
	delete(spec, "conversion")
	var newest []any
	for _, v := range spec["versions"].([]any) {
		if v.(map[string]any)["storage"] == true {
			newest = append(newest, v)
		}
	}
	spec["versions"] = newest
	name := o["metadata"].(map[string]any)["name"].(string)
	if err := api.do(t.Context(), http.MethodPost, path, nil, o, nil); err != nil && !isStatus(err, http.StatusConflict) {
		t.Fatal(err) // a test that was killed may have left it
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := api.do(ctx, http.MethodDelete, path+"/"+name, nil, nil, nil); err != nil {
			t.Error(err)
		}
		hosttest.Until(t, name+" is gone", func() bool { return isStatus(api.get(ctx, path+"/"+name, nil, nil), http.StatusNotFound) })
	})
	hosttest.Until(t, name+" is served", func() bool {
		plural, group, _ := strings.Cut(name, ".")
		version := newest[0].(map[string]any)["name"].(string)
		return api.get(t.Context(), api.in(group+"/"+version, plural, ""), nil, nil) == nil
	})
}

// objects lists the names of what is of a kind.
func objects(t testing.TB, api *client, group, resource string) (names []string) {
	t.Helper()
	var list struct{ Items []struct{ Metadata meta } }
	if err := api.get(context.Background(), api.in(group, resource, ""), nil, &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		names = append(names, o.Metadata.Name)
	}
	return names
}

// nothingClaimed closes servers, the last there are, and waits until nothing is left of any.
func nothingClaimed(t testing.TB, c Config, servers ...testBackend) {
	t.Helper()
	for _, b := range servers {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	api := apiOf(t, c)
	hosttest.Until(t, "no claim, pool, template, sandbox, pod or lease is left", func() bool {
		n := len(podsOf(t, c)) + len(objects(t, api, leaseGroup, "leases")) + len(objects(t, api, "agents.x-k8s.io/v1beta1", "sandboxes"))
		for _, kind := range []string{"sandboxclaims", "sandboxwarmpools", "sandboxtemplates"} {
			n += len(objects(t, api, agentAPI, kind))
		}
		return n == 0
	})
}

// once runs a program that finds out whether it is the first in its sandbox, and returns where it ran. Nothing is left of it
// while the server goes on.
func once(t testing.TB, b testBackend) (place string, warm bool) {
	t.Helper()
	id := ulid.Make().String()
	s, err := b.Start(t.Context(), backends.Spec{ID: id, Language: "shell", Program: &backends.Command{Args: []string{"bash"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.Close()
		left(b.engine.config)(t, id)
	}()
	return alone(t, s)
}

// TestClaims has two servers have their idle pods by claims: each pod serves one program, and nothing is left of any when both
// have been closed.
func TestClaims(t *testing.T) {
	c := withAgents(t, testConfig(t))
	a, b := newBackend(t, c, 1), newBackend(t, c, 1)
	var places []string
	for _, server := range []testBackend{a, b, a, b, a} {
		cold := len(places) < 2
		place, warm := once(t, server)
		if warm == cold || strings.Contains(place, "by claim ") == cold {
			t.Errorf("run %d: warm %v, in %s", len(places), warm, place)
		}
		for _, p := range places {
			if p == place {
				t.Errorf("%s served two", p)
			}
		}
		places = append(places, place)
		hosttest.Until(t, "an idle pod is ready", func() bool { return server.Pools()[0].Ready > 0 })
	}
	c.AgentSandbox = AgentAuto
	careful := New(c)
	if info, err := careful.Info(t.Context()); err != nil || !strings.Contains(info.Hint, "not used: nodes map no users") {
		t.Errorf("where nodes map no users, it says %q, %v", info.Hint, err)
	}
	if err := careful.Close(); err != nil {
		t.Error(err)
	}
	api := apiOf(t, c)
	if pools := objects(t, api, agentAPI, "sandboxwarmpools"); len(pools) != 1 {
		t.Errorf("two servers have pools %q", pools)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if place, warm := once(t, b); !warm || !strings.Contains(place, "by claim ") {
		t.Errorf("after the other server has ended: warm %v, in %s", warm, place)
	}
	nothingClaimed(t, c, b)
}

// TestClaimsShared has a server whose own idle pod is in use have another out of the pool that all servers share, with no more
// rights than setup gives it.
func TestClaimsShared(t *testing.T) {
	c := withAgents(t, testConfig(t))
	admin := apiOf(t, c)
	apply(t, admin, ownImage, func(o map[string]any) bool { return o["kind"] != "StatefulSet" })
	c.Kubeconfig, c.Account = accountConfig(t, admin), "sandboxmcp-sandbox"
	b := newBackend(t, c, 1)
	once(t, b)
	sharedReady(t, b, 1)
	s := start(t, b, backends.Spec{Language: "shell", Program: &backends.Command{Args: []string{"bash"}}})
	if place, warm := once(t, b); !warm || !strings.Contains(place, "by claim ") {
		t.Errorf("warm %v, in %s", warm, place)
	}
	if o := execute(t, s, "bash", "-c", "echo alive"); o.stdout != "alive\n" || !o.Warm {
		t.Errorf("got %q, warm %v", o.stdout, o.Warm)
	}
	s.Close()
	c.Kubeconfig = kubeconfig
	nothingClaimed(t, c, b)
}

// sharedReady waits until a server has an idle pod of its own, and the pool of all servers n.
func sharedReady(t testing.TB, b testBackend, n int) {
	t.Helper()
	api := apiOf(t, Config{Kubeconfig: kubeconfig, Namespace: b.engine.config.Namespace})
	hosttest.Until(t, "idle pods are ready", func() bool {
		var list struct {
			Items []struct{ Status struct{ ReadyReplicas int } }
		}
		return b.Pools()[0].Ready > 0 && api.get(t.Context(), api.in(agentAPI, "sandboxwarmpools", ""), nil, &list) == nil &&
			len(list.Items) > 0 && list.Items[0].Status.ReadyReplicas >= n
	})
}

// TestClaimedPodRemoved has somebody remove a claimed pod by force while its program runs: the run ends with an error, and the pod
// that the controller makes in its place serves nobody.
func TestClaimedPodRemoved(t *testing.T) {
	c := withAgents(t, testConfig(t))
	b := newBackend(t, c, 1)
	once(t, b)
	hosttest.Until(t, "an idle pod is ready", func() bool { return b.Pools()[0].Ready > 0 })
	s := start(t, b, backends.Spec{Language: "shell", Program: &backends.Command{Args: []string{"bash"}}})
	api := apiOf(t, c)
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "echo begun; sleep 1000"}}, backends.Streams{Stdout: writerFunc(func([]byte) {
		for _, p := range podsOf(t, c) {
			if p.Meta.Labels[labelClaimed] != "" {
				now := map[string]any{"gracePeriodSeconds": 0}
				if err := api.do(t.Context(), http.MethodDelete, api.in("v1", "pods", p.Meta.Name), nil, now, nil); err != nil {
					t.Error(err)
				}
			}
		}
	})})
	if err == nil {
		t.Errorf("ended %s", r.Ended)
	}
	s.Close()
	nothingClaimed(t, c, b)
}

// TestClaimsOfDeadServer has a server end without a word: its claims and their pods go with its lease, those of a live one stay.
func TestClaimsOfDeadServer(t *testing.T) {
	c := withAgents(t, testConfig(t))
	c.Lease = 3 * time.Second
	dead, live := newBackend(t, c, 1), newBackend(t, c, 1)
	for _, server := range []testBackend{dead, live} {
		once(t, server)
		hosttest.Until(t, "an idle pod is ready", func() bool { return server.Pools()[0].Ready > 0 })
	}
	lasting := start(t, live, backends.Spec{Language: "shell", Keep: true})
	name := dead.engine.lease.name
	dead.engine.lease.cancel() // no renewal, no sweep, and no removal
	api := apiOf(t, c)
	hosttest.Until(t, "the dead server's claims, pods and lease are gone", func() bool {
		var list struct{ Items []pod }
		if err := api.get(t.Context(), api.in(agentAPI, "sandboxclaims", ""), query("labelSelector", labelLease+"="+name), &list); err != nil {
			t.Fatal(err)
		}
		n := len(list.Items)
		for _, p := range podsOf(t, c) {
			if p.Meta.Labels[labelLease] == name {
				n++
			}
		}
		return n == 0 && isStatus(api.get(t.Context(), api.in(leaseGroup, "leases", name), nil, nil), http.StatusNotFound)
	})
	if o := execute(t, lasting, "bash", "-c", "echo alive"); o.stdout != "alive\n" {
		t.Errorf("the live server's sandbox says %q", o.stdout)
	}
	lasting.Close()
	nothingClaimed(t, c, live, dead)
}

// BenchmarkClaims measures a claim of a pod of the pool that all servers share, beside a bare exec.
func BenchmarkClaims(b *testing.B) {
	c := withAgents(b, testConfig(b))
	server := newBackend(b, c, 1)
	closeLater(b, server)
	once(b, server)
	times := map[string][]time.Duration{}
	for b.Loop() {
		sharedReady(b, server, 1)
		own := start(b, server, backends.Spec{Language: "shell", Program: &backends.Command{Args: []string{"bash"}}})
		begun := time.Now()
		trueIn(b, server.engine.cluster)
		times["exec"] = append(times["exec"], time.Since(begun))
		begun = time.Now()
		shared := start(b, server, backends.Spec{Language: "shell", Program: &backends.Command{Args: []string{"bash"}}})
		times["claim"] = append(times["claim"], time.Since(begun))
		if o := execute(b, shared, "bash", "-c", "true"); !o.Warm {
			b.Error("it was made anew")
		}
		shared.Close()
		own.Close()
	}
	report(b, times)
}
