package config

// Kubernetes configures the pods of the backend kubernetes. Images, Containers.Pull and Containers.Ahead count for
// them, too.
type Kubernetes struct {
	Kubeconfig    string   // a file; "" goes by the environment
	Context       string   // of the file; "" is the current one
	Namespace     string   // "" is the context's
	Image         string   // of this program; "" is none, and no pod can be made
	RuntimeClass  string   // "" is the cluster's default
	NodeSelector  []string // KEY=VALUE
	PriorityClass string   // "" is the cluster's default
	Account       string   // of the pods, which have no token; "" is the namespace's default
	Overcommit    int      // sandboxes that share what each may use of the CPUs
	PolicySeconds int      // that a network policy may take to come into force
	AgentSandbox  string   // "auto": idle pods are had by claims of agents.x-k8s.io where pods have users of their own; "always"; "never"
}

// kubernetesSettings returns the settings of the backend kubernetes.
func kubernetesSettings() []setting {
	return []setting{
		pathOr(Found, "kubernetes.kubeconfig", func(c *Config) *string { return &c.Kubernetes.Kubeconfig }),
		text("kubernetes.context", func(c *Config) *string { return &c.Kubernetes.Context }),
		text("kubernetes.namespace", func(c *Config) *string { return &c.Kubernetes.Namespace }),
		checked("kubernetes.image", "KUBERNETES_IMAGE", None+", an image", None, func(c *Config) *string { return &c.Kubernetes.Image }, CheckImage),
		text("kubernetes.runtime_class", func(c *Config) *string { return &c.Kubernetes.RuntimeClass }),
		labels("kubernetes.node_selector", func(c *Config) *[]string { return &c.Kubernetes.NodeSelector }),
		text("kubernetes.priority_class", func(c *Config) *string { return &c.Kubernetes.PriorityClass }),
		text("kubernetes.service_account", func(c *Config) *string { return &c.Kubernetes.Account }),
		count("kubernetes.overcommit", "", 1, 100, func(c *Config) *int { return &c.Kubernetes.Overcommit }),
		count("kubernetes.policy_seconds", "", 0, 60, func(c *Config) *int { return &c.Kubernetes.PolicySeconds }),
		word("kubernetes.agent_sandbox", "", []string{"auto", "always", "never"}, func(c *Config) *string { return &c.Kubernetes.AgentSandbox }),
	}
}
