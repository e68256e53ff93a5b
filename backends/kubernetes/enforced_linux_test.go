package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// enforce simulates a network that enforces our policy: rules in the node's network namespace drop the packets of a
// namespace's pods, except to the addresses in but, as soon as it sees the pods.
func enforce(t *testing.T, c Config, but ...string) {
	t.Helper()
	dir := filepath.Dir(filepath.Dir(kubeconfig))
	outer, err := os.ReadFile(filepath.Join(dir, "unshare.pid"))
	pid := strings.TrimSpace(string(outer))
	inner, err2 := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err := errors.Join(err, err2); err != nil {
		hosttest.SkipMissing(t, thing, "the node's network namespace can't be entered: "+err.Error())
	}
	table := func(args ...string) error {
		out, err := exec.Command("nsenter", append([]string{"-t", strings.Fields(string(inner))[0], "-n", "iptables", "-w", "-t", "raw"},
			args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("iptables %v: %w %s", args, err, out)
		}
		return nil
	}
	chain := "T" + ulid.Make().String()[10:]
	if err := errors.Join(table("-N", chain), table("-I", "PREROUTING", "-j", chain)); err != nil {
		hosttest.SkipMissing(t, thing, err.Error())
	}
	for _, address := range but {
		if err := table("-A", chain, "-d", address, "-j", "RETURN"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seen := map[string]bool{}; engine.Pause(ctx, 100*time.Millisecond); {
			for _, p := range podsOf(t, c) {
				if ip := p.Status.PodIP; ip != "" && !seen[ip] && p.Meta.Labels[labelRole] == roleSandbox {
					seen[ip] = true
					if err := table("-A", chain, "-s", ip, "-j", "DROP"); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := errors.Join(table("-D", "PREROUTING", "-j", chain), table("-F", chain), table("-X", chain)); err != nil {
			t.Error(err)
		}
	})
}

// TestPolicyEnforced has a network that enforces the policy a little after the pod's start: the probes find it
// closed, the layer is in force, and a gateway is available.
func TestPolicyEnforced(t *testing.T) {
	c := testConfig(t)
	c.Settle = time.Minute
	enforce(t, c)
	b := newBackend(t, c, 0)
	closeLater(t, b)
	s := start(t, b, backends.Spec{Language: "python", Gateway: []int{443}, Require: PromisedLayers()})
	api := apiOf(t, c)
	host, port := api.base.Hostname(), api.base.Port()
	targets := []string{"API server,tcp," + host + "," + port, "kubelet,tcp," + host + ",10250", "metadata,tcp,169.254.169.254,80",
		"internet,tcp,1.1.1.1,443"}
	o := execute(t, s, append([]string{"python", "-c", reach}, targets...)...)
	if o.stdout != "done\n" {
		t.Errorf("got %q, %q", o.stdout, o.stderr)
	}
	i := slices.IndexFunc(o.Contained.Layers, func(l backends.Layer) bool { return l.Name == backends.LayerNet })
	if i < 0 || !o.Contained.Layers[i].InForce || !strings.Contains(o.Contained.Layers[i].Detail, "none of") {
		t.Errorf("got %+v", o.Contained.Layers)
	}
}

// TestPolicyWithHole has a network that lets pods reach one address: a run that needs the layer is refused, with
// that address in the error.
func TestPolicyWithHole(t *testing.T) {
	c := testConfig(t)
	c.Settle = 10 * time.Second
	api := apiOf(t, c)
	enforce(t, c, api.base.Hostname())
	b := newBackend(t, c, 0)
	closeLater(t, b)
	_, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell", Gateway: []int{443},
		Require: []string{backends.LayerNet}})
	refused, is := errors.AsType[*backends.Refusal](err)
	if !is || refused.Layer != backends.LayerNet || !strings.Contains(refused.Reason, "API server "+api.base.Host+", kubelet") ||
		strings.Contains(refused.Reason, "gateway 10.") {
		t.Errorf("got %v", err)
	}
}

// TestContractEnforced runs the attacks that need a network which enforces policies.
func TestContractEnforced(t *testing.T) {
	if hosttest.Rounds(0, 1) == 0 {
		t.Skip("takes minutes: SANDBOXMCP_TEST_LONG runs it")
	}
	c := testConfig(t)
	c.Settle = time.Minute
	enforce(t, c)
	o, stateDir := contract(t, c)
	o.Only = []string{"Network", "Gateway", "Programs"}
	backendtest.Run(t, func(testing.TB) backends.Backend { return newBackendIn(stateDir, c, 0) }, o)
}
