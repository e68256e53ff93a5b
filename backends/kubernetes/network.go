package kubernetes

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

// policyName is the name of our network policy.
const policyName = "sandboxmcp-sandboxes"

// networkPolicy denies sandboxes all traffic, in both directions.
func networkPolicy(namespace string) object {
	return object{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": object{"name": policyName, "namespace": namespace},
		"spec": object{
			"podSelector": object{"matchLabels": map[string]string{labelRole: roleSandbox}},
			"policyTypes": []string{"Ingress", "Egress"},
		},
	}
}

// denyAll creates the network policy, unless it exists or we may not: the inits prove whether it is in force.
func (c *cluster) denyAll(ctx context.Context) error {
	err := c.call(ctx, http.MethodPost, c.pathOf("networking.k8s.io/v1", "networkpolicies", ""), nil, networkPolicy(c.namespace), nil)
	if err == nil || isStatus(err, http.StatusConflict) || isStatus(err, http.StatusForbidden) {
		return nil
	}
	return fmt.Errorf("deny sandboxes the network: %w", err)
}

// probeTargets lists addresses that only we know: the API server as we reach it, the cluster's names, a neighbour.
func (c *cluster) probeTargets(ctx context.Context) (targets []string) {
	add := func(name, network, host, port string) {
		if net.ParseIP(host) != nil {
			targets = append(targets, name+"="+network+"/"+net.JoinHostPort(host, port))
		}
	}
	port := c.base.Port()
	if port == "" {
		port = "443"
	}
	addresses, _ := net.DefaultResolver.LookupHost(ctx, c.base.Hostname())
	for _, a := range addresses {
		add("API server", "tcp", a, port)
	}
	var dns struct{ Spec struct{ ClusterIP string } }
	if c.get(ctx, "/api/v1/namespaces/kube-system/services/kube-dns", nil, &dns) == nil {
		add("cluster DNS", "udp", dns.Spec.ClusterIP, "53")
		add("cluster DNS", "tcp", dns.Spec.ClusterIP, "53")
	}
	var pods struct{ Items []pod }
	params := query("fieldSelector", "status.phase=Running")
	params.Set("limit", "20")
	if c.get(ctx, c.pathOf("v1", "pods", ""), params, &pods) == nil {
		for _, p := range pods.Items {
			if p.Status.PodIP != "" {
				add("neighbour", "tcp", p.Status.PodIP, "10250")
				break
			}
		}
	}
	return targets
}
