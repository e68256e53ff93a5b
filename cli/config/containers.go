package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Images are the images of each language's containers, as references of engines: "python:3.12-slim",
// "localhost/sandboxmcp/python:latest" or "registry.example.com/me/r@sha256:...".
type Images struct {
	Python string `key:"python" env:"IMAGE_PYTHON" is:"image" default:"docker.io/library/python:3.12-slim" about:"image of Python's containers"`
	Node   string `key:"node" env:"IMAGE_NODE" is:"image" default:"docker.io/library/node:22-slim" about:"image of Node's containers"`
	Shell  string `key:"shell" env:"IMAGE_SHELL" is:"image" default:"docker.io/library/debian:stable-slim" about:"image of shells' containers"`
	R      string `key:"r" env:"IMAGE_R" is:"image" default:"docker.io/rocker/r-ver:4" about:"image of R's containers"`
}

// Containers configures how the backends podman and docker make containers.
type Containers struct {
	Pull   string   `key:"pull" oneof:"missing never" default:"missing" about:"policy for a missing image: pull it, or refuse the run"`
	Podman string   `key:"podman" is:"podman" about:"address of Podman; auto uses Podman's own settings"`
	Docker string   `key:"docker" is:"docker" about:"address of Docker; auto uses DOCKER_HOST, contexts and the usual sockets"`
	Binary string   `key:"binary" is:"path or auto" about:"static sandboxmcp for Linux as PID 1 of each container; auto is this program"`
	GPUs   []string `key:"gpus" is:"gpus" about:"default graphics processors of runs"`
}

// Languages returns the languages that have an image, which are the keys of images.
func Languages() []string { return []string{"python", "node", "shell", "r"} }

// ForLanguage returns the image of a language, or "".
func (i Images) ForLanguage(language string) string {
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

// Words for a value that is detected on the machine, and for no value.
const (
	Found = "auto"
	None  = "none"
)

// CheckImage returns an error unless text is a valid reference of an image.
func CheckImage(text string) error {
	isReference := func(text string) bool { _, err := reference.ParseAnyReference(text); return err == nil }
	switch {
	case isReference(text):
		return nil
	case isReference(strings.ToLower(text)):
		return fmt.Errorf("%.200q is not an image reference: names must be lower case", text)
	case strings.Contains(text, "://"):
		return fmt.Errorf("%.200q is not an image reference: leave out the scheme before the host", text)
	}
	return fmt.Errorf("%.200q is not an image reference: write one like python:3.12-slim or registry.example.com/me/python:1, or one "+
		"with a digest", text)
}

// engineKind returns the kind of an engine's address.
func engineKind(name string, schemes []string, of *string) kind {
	return checkedKind(Found+", a URL of "+strings.Join(schemes, ", "), Found, of, func(text string) error {
		u, err := url.Parse(text)
		switch {
		case err != nil || !slices.Contains(schemes, u.Scheme):
			return fmt.Errorf("%.200q is not an engine address: write one like unix:///run/%s.sock or ssh://me@host, or %s", text, name, Found)
		case u.Scheme == "unix" && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
			return fmt.Errorf("%.200q has no absolute path: write three slashes, as in unix:///run/engine.sock", text)
		case u.Scheme != "unix" && u.Scheme != "npipe" && u.Host == "":
			return fmt.Errorf("%.200q names no host", text)
		}
		return nil
	})
}

// pathOrKind returns the kind of a path; the word none stands for "".
func pathOrKind(none string, of *string) kind {
	file := pathKind(of)
	return kind{none + ", a path", func(v value) error {
		if text, err := v.text(); err == nil && text == none {
			*of = ""
			return nil
		}
		return file.set(v)
	}, func() string { return cmp.Or(*of, none) }}
}

// labelsKind returns the kind of a list of KEY=VALUE: no KEY is empty, has white space, or repeats.
func labelsKind(of *[]string) kind {
	return checkedListKind("a list of KEY=VALUE", of, func(label string, before []string) error {
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

// gpusKind returns the kind of a list of graphics processors, in YAML or separated by commas. Its entries are not validated
// here.
func gpusKind(of *[]string) kind {
	return kind{None + ", all, indices", func(v value) error {
		if v.list && len(v.words) == 0 {
			*of = nil
			return nil
		}
		if v.tag == "!!int" { // a single index without quotes
			v.tag = ""
		}
		words, err := v.wordList()
		if err == nil {
			*of = SplitGPUs(strings.Join(words, ","))
		}
		return err
	}, func() string {
		if len(*of) == 0 {
			return None
		}
		return yamlWord(strings.Join(*of, ","))
	}}
}

// SplitGPUs splits a list such as "0,1", "all", or "none", which is an empty list rather than nil. The container
// backend validates the entries.
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

// Kubernetes configures the pods of the backend kubernetes, which also uses Images, Containers.Pull and Pool.
type Kubernetes struct {
	Kubeconfig    string   `key:"kubeconfig" is:"path or auto" about:"kubeconfig of the cluster; auto is KUBECONFIG, the home directory, or the account of the server's own pod"`
	Context       string   `key:"context" about:"context of that file; none is its current one"`
	Namespace     string   `key:"namespace" about:"namespace of the pods; none is the context's"`
	Image         string   `key:"image" env:"KUBERNETES_IMAGE" is:"image or none" about:"image with this version of sandboxmcp as /.sandboxmcp/init"`
	RuntimeClass  string   `key:"runtime_class" about:"RuntimeClass of the pods; none is the cluster's default"`
	NodeSelector  []string `key:"node_selector" is:"labels" about:"labels of the nodes that may run sandboxes"`
	PriorityClass string   `key:"priority_class" about:"PriorityClass of the pods; none is the cluster's default"`
	Account       string   `key:"service_account" about:"service account of the pods, without a token; none is the namespace's default"`
	Overcommit    int      `key:"overcommit" range:"1..100" default:"1" about:"sandboxes per CPU limit: a pod requests its limit divided by this"`
}
