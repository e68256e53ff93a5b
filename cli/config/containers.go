package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Images names the image of each language's containers, as engines take references: "python:3.12-slim",
// "localhost/sandboxmcp/python:latest" or "registry.example.com/me/r@sha256:...".
type Images struct {
	Python, Node, Shell, R string
}

// Containers configures how the backends podman and docker make containers.
type Containers struct {
	Pull   string   // "missing": images that are not there are fetched; "never"
	Podman string   // URL of the engine; "" is found as Podman's own client finds it
	Docker string   // likewise
	Binary string   // sandboxmcp for Linux, statically linked, to be each container's first program; "" is the running one
	Ahead  int      // containers that a server keeps started, each for one run that may come
	Labels []string // KEY=VALUE, on all containers
	GPUs   []string // graphics processors of runs that ask for none: indices, or "all"
}

// Languages returns the languages that have an image, as the keys of images are called.
func Languages() []string { return []string{"python", "node", "shell", "r"} }

// Of returns the image of a language, "" where there is none.
func (i Images) Of(language string) string {
	switch language {
	case "python":
		return i.Python
	case "node":
		return i.Node
	case "shell":
		return i.Shell
	case "r":
		return i.R
	}
	return ""
}

// Found is the word for a value that is detected on the machine, None the word for no value.
const (
	Found = "auto"
	None  = "none"
)

// containerSettings returns the settings of images and of the backends podman and docker.
func containerSettings(c *Config) []setting {
	return []setting{
		{"images.python", "IMAGE_PYTHON", "image of Python's containers", image(&c.Images.Python)},
		{"images.node", "IMAGE_NODE", "image of Node's containers", image(&c.Images.Node)},
		{"images.shell", "IMAGE_SHELL", "image of shells' containers", image(&c.Images.Shell)},
		{"images.r", "IMAGE_R", "image of R's containers", image(&c.Images.R)},
		{"containers.pull", "", "an image that is missing is pulled, or the run is refused", word([]string{"missing", "never"}, &c.Containers.Pull)},
		{"containers.podman", "", "address of Podman; auto goes by its own settings", engine("podman", []string{"unix", "ssh", "tcp"}, &c.Containers.Podman)},
		{"containers.docker", "", "address of Docker; auto goes by DOCKER_HOST, contexts and the usual sockets", engine("docker", []string{"unix", "ssh", "tcp", "http", "https", "npipe"}, &c.Containers.Docker)},
		{"containers.binary", "", "static sandboxmcp for Linux that is each container's first program; auto is this one", pathOr(Found, &c.Containers.Binary)},
		{"containers.ahead", "", "containers that a server keeps started, each for one run", count(0, 100, &c.Containers.Ahead)},
		{"containers.labels", "", "labels of all containers", labels(&c.Containers.Labels)},
		{"containers.gpus", "", "graphics processors of runs that ask for none", gpus(&c.Containers.GPUs)},
	}
}

// image is a reference that CheckImage accepts.
func image(of *string) kind { return checked("an image", "", of, CheckImage) }

// CheckImage returns an error that says what is wrong with the reference of an image.
func CheckImage(text string) error {
	isReference := func(text string) bool { _, err := reference.ParseAnyReference(text); return err == nil }
	switch {
	case isReference(text):
		return nil
	case isReference(strings.ToLower(text)):
		return fmt.Errorf("%.200q is no reference of an image: names have small letters only", text)
	case strings.Contains(text, "://"):
		return fmt.Errorf("%.200q is no reference of an image: leave out what stands before the host", text)
	}
	return fmt.Errorf("%.200q is no reference of an image: write one like python:3.12-slim or registry.example.com/me/python:1, or one with a digest", text)
}

// engine is the address of the engine of a name.
func engine(name string, schemes []string, of *string) kind {
	return checked(Found+", a URL of "+strings.Join(schemes, ", "), Found, of, func(text string) error {
		u, err := url.Parse(text)
		switch {
		case err != nil || !slices.Contains(schemes, u.Scheme):
			return fmt.Errorf("%.200q is no address of an engine: write one like unix:///run/%s.sock or ssh://me@host, or %s", text, name, Found)
		case u.Scheme == "unix" && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
			return fmt.Errorf("%.200q has no absolute path: write three slashes, as in unix:///run/engine.sock", text)
		case u.Scheme != "unix" && u.Scheme != "npipe" && u.Host == "":
			return fmt.Errorf("%.200q names no host", text)
		}
		return nil
	})
}

// pathOr is a path; the word none stands for "".
func pathOr(none string, of *string) kind {
	file := path(of)
	return kind{none + ", a path", func(v value) error {
		if text, err := v.text(); err == nil && text == none {
			*of = ""
			return nil
		}
		return file.set(v)
	}, func() string { return cmp.Or(*of, none) }}
}

// labels is a list of KEY=VALUE, in which no KEY is empty, has white space, or stands twice.
func labels(of *[]string) kind {
	return checkedList("a list of KEY=VALUE", of, func(label string, before []string) error {
		name, _, ok := strings.Cut(label, "=")
		switch {
		case !ok || name == "" || strings.ContainsAny(name, " \t\n\x00"):
			return fmt.Errorf("%.200q is not of the form KEY=VALUE", label)
		case slices.ContainsFunc(before, func(b string) bool { return strings.HasPrefix(b, name+"=") }):
			return fmt.Errorf("label %.200q is listed twice", name)
		}
		return nil
	})
}

// gpus are graphics processors, as a list or separated by commas. The entries are not checked here.
func gpus(of *[]string) kind {
	return kind{None + ", all, indices", func(v value) error {
		if v.list && len(v.words) == 0 {
			*of = nil
			return nil
		}
		if v.tag == "!!int" { // one index, without quotes
			v.tag = ""
		}
		words, err := v.names()
		if err == nil {
			*of = SplitGPUs(strings.Join(words, ","))
		}
		return err
	}, func() string {
		if len(*of) == 0 {
			return None
		}
		return quoted(strings.Join(*of, ","))
	}}
}

// SplitGPUs reads a list such as "0,1", "all", or "none", which is an empty list and not nil. Whether a container
// can have them is checked when it is made.
func SplitGPUs(text string) []string {
	if text == None {
		return []string{}
	}
	all := strings.Split(text, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

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
