package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// right is a set of permitted operations on one kind of objects in the namespace.
type right struct {
	group, resource string
	verbs           []string
}

// rights are the rights that a server needs. The role that setup prints has exactly these.
var rights = []right{
	{"", "pods", []string{"create", "get", "list", "watch", "patch", "delete"}},
	{"", "pods/exec", []string{"create", "get"}},
	{"", "pods/log", []string{"get"}},
	{"coordination.k8s.io", "leases", []string{"create", "get", "list", "patch", "delete"}},
}

// MissingSetup implements [container.Advised]: it lists the objects that an administrator has not applied, as far
// as this account can read.
func (c *cluster) MissingSetup(ctx context.Context) (all []string) {
	all = c.missingRights(ctx)
	lacks := func(path string) bool { return isStatus(c.get(ctx, path, nil, nil), http.StatusNotFound) }
	if lacks(c.pathOf("networking.k8s.io/v1", "networkpolicies", policyName)) {
		all = append(all, "network policy "+policyName)
	}
	var quotas struct{ Items []struct{ Metadata meta } }
	if c.get(ctx, c.pathOf("v1", "resourcequotas", ""), nil, &quotas) == nil && len(quotas.Items) == 0 {
		all = append(all, "a resource quota")
	}
	if name := c.config.PriorityClass; name != "" && lacks("/apis/scheduling.k8s.io/v1/priorityclasses/"+name) {
		all = append(all, "priority class "+name)
	}
	if name := c.config.Account; name != "" && lacks(c.pathOf("v1", "serviceaccounts", name)) {
		all = append(all, "service account "+name)
	}
	var space struct{ Metadata meta }
	if c.get(ctx, "/api/v1/namespaces/"+c.namespace, nil, &space) == nil && space.Metadata.Labels[enforceLabel] != "restricted" {
		all = append(all, fmt.Sprintf("label %s: restricted of the namespace", enforceLabel))
	}
	return append(all, c.openPolicies(ctx)...)
}

const enforceLabel = "pod-security.kubernetes.io/enforce"

// missingRights queries the API server for the rights that this account lacks.
func (c *cluster) missingRights(ctx context.Context) (all []string) {
	var review struct {
		Status struct {
			Incomplete    bool
			ResourceRules []struct{ Verbs, APIGroups, Resources, ResourceNames []string }
		}
	}
	ask := object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": object{"namespace": c.namespace}}
	err := c.call(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", nil, ask, &review)
	if err != nil || review.Status.Incomplete { // Incomplete means that the API server does not know
		return nil
	}
	has := func(list []string, one string) bool { return slices.Contains(list, "*") || slices.Contains(list, one) }
	for _, r := range rights {
		for _, verb := range r.verbs {
			granted := false
			for _, rule := range review.Status.ResourceRules {
				granted = granted || len(rule.ResourceNames) == 0 && has(rule.APIGroups, r.group) && has(rule.Resources, r.resource) &&
					has(rule.Verbs, verb)
			}
			if !granted {
				all = append(all, "the right to "+verb+" "+r.resource)
			}
		}
	}
	return all
}

// openPolicies lists other policies of the namespace that open the sandboxes' network: policies add up.
func (c *cluster) openPolicies(ctx context.Context) (all []string) {
	var policies struct {
		Items []struct {
			Metadata meta
			Spec     struct {
				PodSelector struct {
					MatchLabels      map[string]string
					MatchExpressions []any
				}
				Egress, Ingress []any
			}
		}
	}
	if c.get(ctx, c.pathOf("networking.k8s.io/v1", "networkpolicies", ""), nil, &policies) != nil {
		return nil
	}
	for _, p := range policies.Items {
		labels := p.Spec.PodSelector.MatchLabels
		ours := len(labels) == 0 || len(labels) == 1 && labels[labelRole] == roleSandbox
		if ours && len(p.Spec.Egress)+len(p.Spec.Ingress) > 0 && len(p.Spec.PodSelector.MatchExpressions) == 0 {
			all = append(all, "another network policy than "+strings.TrimSpace(p.Metadata.Name)+", which opens the sandboxes' network")
		}
	}
	return all
}
