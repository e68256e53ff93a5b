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
func containerSettings() []setting {
	return []setting{
		image("images.python", "IMAGE_PYTHON", func(c *Config) *string { return &c.Images.Python }),
		image("images.node", "IMAGE_NODE", func(c *Config) *string { return &c.Images.Node }),
		image("images.shell", "IMAGE_SHELL", func(c *Config) *string { return &c.Images.Shell }),
		image("images.r", "IMAGE_R", func(c *Config) *string { return &c.Images.R }),
		word("containers.pull", "", []string{"missing", "never"}, func(c *Config) *string { return &c.Containers.Pull }),
		engine("containers.podman", []string{"unix", "ssh", "tcp"}, func(c *Config) *string { return &c.Containers.Podman }),
		engine("containers.docker", []string{"unix", "ssh", "tcp", "http", "https", "npipe"}, func(c *Config) *string { return &c.Containers.Docker }),
		pathOr(Found, "containers.binary", func(c *Config) *string { return &c.Containers.Binary }),
		count("containers.ahead", "", 0, 100, func(c *Config) *int { return &c.Containers.Ahead }),
		labels("containers.labels", func(c *Config) *[]string { return &c.Containers.Labels }),
		gpus("containers.gpus", func(c *Config) *[]string { return &c.Containers.GPUs }),
	}
}

// image returns the setting of an image's reference, which CheckImage accepts.
func image(key, env string, of func(*Config) *string) setting {
	return checked(key, env, "an image", "", of, CheckImage)
}

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

// engine returns the setting of an engine's address.
func engine(key string, schemes []string, of func(*Config) *string) setting {
	return checked(key, "", Found+", a URL of "+strings.Join(schemes, ", "), Found, of, func(text string) error {
		u, err := url.Parse(text)
		switch {
		case err != nil || !slices.Contains(schemes, u.Scheme):
			return fmt.Errorf("%.200q is no address of an engine: write one like unix:///run/%s.sock or ssh://me@host, or %s",
				text, strings.TrimPrefix(key, "containers."), Found)
		case u.Scheme == "unix" && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
			return fmt.Errorf("%.200q has no absolute path: write three slashes, as in unix:///run/engine.sock", text)
		case u.Scheme != "unix" && u.Scheme != "npipe" && u.Host == "":
			return fmt.Errorf("%.200q names no host", text)
		}
		return nil
	})
}

// pathOr returns the setting of a path; the word none stands for "".
func pathOr(none, key string, of func(*Config) *string) setting {
	file := path(key, "", of)
	return setting{key, "", none + ", a path", func(c *Config, v value) error {
		if text, err := v.text(); err == nil && text == none {
			*of(c) = ""
			return nil
		}
		return file.set(c, v)
	}, func(c *Config) string { return cmp.Or(*of(c), none) }}
}

// labels returns the setting of a list of KEY=VALUE, in which no KEY is empty, has white space, or stands twice.
func labels(key string, of func(*Config) *[]string) setting {
	all := list(key, of)
	return setting{key, "", "a list of KEY=VALUE", func(c *Config, v value) error {
		if err := all.set(c, v); err != nil {
			return err
		}
		var seen []string
		for _, label := range *of(c) {
			name, _, ok := strings.Cut(label, "=")
			switch {
			case !ok || name == "" || strings.ContainsAny(name, " \t\n\x00"):
				return fmt.Errorf("%.200q is not of the form KEY=VALUE", label)
			case slices.Contains(seen, name):
				return fmt.Errorf("label %.200q is listed twice", name)
			}
			seen = append(seen, name)
		}
		return nil
	}, all.show}
}

// gpus returns the setting of graphics processors, as a list or separated by commas. The entries are not checked here.
func gpus(key string, of func(*Config) *[]string) setting {
	return setting{key, "", None + ", all, indices", func(c *Config, v value) error {
		if v.list && len(v.words) == 0 {
			*of(c) = nil
			return nil
		}
		if v.tag == "!!int" { // one index, without quotes
			v.tag = ""
		}
		words, err := v.names()
		if err == nil {
			*of(c) = SplitGPUs(strings.Join(words, ","))
		}
		return err
	}, func(c *Config) string {
		if len(*of(c)) == 0 {
			return None
		}
		return quoted(strings.Join(*of(c), ","))
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
