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
func kubernetesSettings(c *Config) []setting {
	return []setting{
		{"kubernetes.kubeconfig", "", "file that says how to reach the cluster; auto is KUBECONFIG, the home directory, or the account of the server's own pod", pathOr(Found, &c.Kubernetes.Kubeconfig)},
		{"kubernetes.context", "", "context of that file; none is its current one", text(&c.Kubernetes.Context)},
		{"kubernetes.namespace", "", "namespace of the pods; none is the context's", text(&c.Kubernetes.Namespace)},
		{"kubernetes.image", "KUBERNETES_IMAGE", "image that has this version of sandboxmcp as /.sandboxmcp/init", checked(None+", an image", None, &c.Kubernetes.Image, CheckImage)},
		{"kubernetes.runtime_class", "", "RuntimeClass of the pods; none is the cluster's default", text(&c.Kubernetes.RuntimeClass)},
		{"kubernetes.node_selector", "", "labels of the nodes that may run sandboxes", labels(&c.Kubernetes.NodeSelector)},
		{"kubernetes.priority_class", "", "PriorityClass of the pods, by which the cluster decides whose wait; none is the cluster's default", text(&c.Kubernetes.PriorityClass)},
		{"kubernetes.service_account", "", "account of the pods, of which they get no token; none is the namespace's default", text(&c.Kubernetes.Account)},
		{"kubernetes.overcommit", "", "sandboxes that share what each may use of the CPUs: pods request that part", count(1, 100, &c.Kubernetes.Overcommit)},
		{"kubernetes.policy_seconds", "", "seconds that a network policy may take to come into force for a new pod", count(0, 60, &c.Kubernetes.PolicySeconds)},
		{"kubernetes.agent_sandbox", "", "idle pods are had by claims of agents.x-k8s.io where it is installed: auto if nodes map users; always, too, where runtime_class gives each pod a kernel", word([]string{"auto", "always", "never"}, &c.Kubernetes.AgentSandbox)},
	}
}
