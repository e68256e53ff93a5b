package kubernetes

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// serveAgents has a fake know agents.x-k8s.io in a version, nodes that map users or do not, and an account with rights.
func (f *fakeAPI) serveAgents(version string, mapped bool, resources ...string) {
	f.objects["/apis/"+agentGroup] = map[string]any{"metadata": map[string]any{}, "versions": []any{map[string]any{"groupVersion": agentGroup + "/" + version}}}
	f.objects["/api/v1/nodes/node1"] = map[string]any{"metadata": map[string]any{}, "status": map[string]any{
		"runtimeHandlers": []any{map[string]any{"name": "", "features": map[string]any{"userNamespaces": mapped}}}}}
	f.review = map[string]any{"status": map[string]any{"resourceRules": []any{map[string]any{
		"verbs": []string{"*"}, "apiGroups": []string{agentGroup}, "resources": resources}}}}
}

// TestUseClaims uses agents.x-k8s.io only where pods by it have all that others have, and says why not where it could be expected.
func TestUseClaims(t *testing.T) {
	for _, tt := range []struct {
		name, how, version string
		mapped             bool
		resources          []string
		use                bool
		note               string
	}{
		{"a kernel for each", AgentAlways, "v1beta1", false, []string{"*"}, true, "by claims"},
		{"one user for all, although", AgentAlways, "v1beta1", false, []string{"*"}, false, "refused: nodes map no users"},
		{"not asked for", "", "v1beta1", true, []string{"*"}, false, ""},
		{"never", AgentNever, "v1beta1", true, []string{"*"}, false, ""},
		{"not installed", AgentAuto, "", true, nil, false, ""},
		{"installed", AgentAuto, "v1beta1", true, []string{"*"}, true, "by claims"},
		{"older", AgentAuto, "v1alpha1", true, []string{"*"}, false, "it has no " + agentAPI},
		{"one user for all", AgentAuto, "v1beta1", false, []string{"*"}, false, "map no users"},
		{"no right", AgentAuto, "v1beta1", true, []string{"sandboxtemplates", "sandboxclaims"}, false, "the right to create sandboxwarmpools, "},
		{"not installed, although", AgentAlways, "", true, nil, false, "refused: it is not installed"},
		{"no right, although", AgentAlways, "v1beta1", true, []string{"sandboxtemplates", "sandboxwarmpools"}, false, "refused: the right to create sandboxclaims, "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.serveAgents(tt.version, tt.mapped, tt.resources...)
			if tt.version == "" {
				delete(f.objects, "/apis/"+agentGroup)
			}
			c, err := join(t.Context(), f.client(), Config{Image: "own", AgentSandbox: tt.how, RuntimeClass: map[bool]string{true: "kata"}[tt.name == "a kernel for each"]})
			if err != nil {
				refused, is := errors.AsType[*backends.Refusal](err)
				want, expected := strings.CutPrefix(tt.note, "refused: ")
				if !is || !expected || !strings.Contains(refused.Reason, want) {
					t.Error(err)
				}
				return
			}
			defer c.pods.close()
			defer c.lease.close()
			if c.claimed != tt.use || !strings.Contains(c.info.Hint, tt.note) || tt.note == "" && c.info.Hint != "" {
				t.Errorf("used %v, %q", c.claimed, c.info.Hint)
			}
		})
	}
}

// TestWarmPools has two servers ask for the same warm pool at the same time, and for more than one server may: a pool is there as
// long as one of them asks for it.
func TestWarmPools(t *testing.T) {
	f := newFake()
	f.serveAgents("v1beta1", true, "*")
	config := Config{Image: "own", AgentSandbox: AgentAuto, Ahead: 3}
	a, b := f.server(t, config), f.server(t, config)
	of := func(image string) container.Container {
		c := idleContainer()
		c.Image = image
		return c
	}
	var all sync.WaitGroup
	for _, c := range []*cluster{a, b, a, b} {
		all.Go(func() {
			if _, err := c.warmPool(t.Context(), of("shared")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	owners := func(resource string) (names []string) {
		var o struct{ Metadata meta }
		err := a.get(t.Context(), a.in(agentAPI, resource, warmPoolName(a.kind(of("shared")))), nil, &o)
		if err != nil && !isStatus(err, http.StatusNotFound) {
			t.Fatal(err)
		}
		for _, owner := range o.Metadata.Owners {
			names = append(names, owner.Name)
		}
		return names
	}
	ask := func(c *cluster) {
		for _, image := range []string{"1", "2", "3", "4"} {
			if _, err := c.warmPool(t.Context(), of(image)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, resource := range []string{"sandboxtemplates", "sandboxwarmpools"} {
		if got := owners(resource); len(got) != 2 || got[0] == got[1] {
			t.Errorf("%s has owners %q", resource, got)
		}
	}
	ask(a)
	for _, resource := range []string{"sandboxtemplates", "sandboxwarmpools"} {
		if got := owners(resource); len(got) != 1 || got[0] != b.lease.name {
			t.Errorf("after one server has asked for others, %s has owners %q", resource, got)
		}
	}
	ask(b)
	if got := append(owners("sandboxtemplates"), owners("sandboxwarmpools")...); len(got) > 0 {
		t.Errorf("after both have asked for others, there are owners %q", got)
	}
	if len(a.kinds) != maxKinds {
		t.Errorf("a server asks for %q", a.kinds)
	}
}

// TestTemplate looks at what a controller gets to make pods of: all that our own pods have, our network policy and no other, and a
// label that only the template can have given.
func TestTemplate(t *testing.T) {
	f := newFake()
	f.serveAgents("v1beta1", true, "*")
	c := f.server(t, Config{Image: "own", AgentSandbox: AgentAuto, Ahead: 3})
	name, err := c.warmPool(t.Context(), idleContainer())
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Spec struct {
			PodTemplate struct {
				Metadata meta
				Spec     struct {
					HostUsers, AutomountServiceAccountToken *bool
					RestartPolicy                           string
					Containers                              []struct {
						SecurityContext struct{ ReadOnlyRootFilesystem bool }
					}
				}
			}
			Service                 *bool
			NetworkPolicyManagement string
		}
	}
	if err := c.get(t.Context(), c.in(agentAPI, "sandboxtemplates", name), nil, &template); err != nil {
		t.Fatal(err)
	}
	s, labels := template.Spec, template.Spec.PodTemplate.Metadata.Labels
	if labels[labelRole] != roleSandbox || labels[labelKind] != c.kind(idleContainer()) || labels[labelLease] != "" || labels[labelIdle] != "" {
		t.Errorf("labels %v", labels)
	}
	if s.Service == nil || *s.Service || s.NetworkPolicyManagement != "Unmanaged" {
		t.Errorf("service %v, network policy %q", s.Service, s.NetworkPolicyManagement)
	}
	p := s.PodTemplate.Spec
	if p.HostUsers == nil || *p.HostUsers || p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken || p.RestartPolicy != "Never" || len(p.Containers) != 2 ||
		!p.Containers[1].SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("pods %+v", p)
	}
	if name != "sandboxmcp-"+labels[labelKind] {
		t.Errorf("it is called %q", name)
	}
}
