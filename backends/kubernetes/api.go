package kubernetes

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// object is an API object, as we encode it.
type object = map[string]any

// The fields of API objects that we decode.

type meta struct {
	Name            string            `json:"name,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Owners          []owner           `json:"ownerReferences,omitempty"`
	Deleted         string            `json:"deletionTimestamp,omitempty"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

type pod struct {
	Meta   meta `json:"metadata"`
	Spec   podSpec
	Status podStatus
}

// podSpec is the part of a pod's specification that we decode: see [cluster.spec].
type podSpec struct {
	NodeName   string `json:"nodeName"`
	Containers []struct{ Name, Image string }
}

type podStatus struct {
	Phase, Reason, Message string
	PodIP                  string
	Conditions             []condition
	InitContainers         []containerStatus `json:"initContainerStatuses"`
	Containers             []containerStatus `json:"containerStatuses"`
}

type condition struct{ Type, Status, Reason, Message string }

type containerStatus struct {
	Name, ImageID string
	State         struct {
		Waiting, Terminated *stateReason
		Running             *struct{}
	}
}

type stateReason struct {
	Reason, Message string
	ExitCode        int
}

type node struct {
	Status struct {
		RuntimeHandlers []struct {
			Name     string
			Features struct{ UserNamespaces bool }
		}
	}
}

// mapsUsers reports whether a node declares that it gives pods user namespaces. It looks for the class among the
// handlers, which usually have the same name.
func (n node) mapsUsers(class string) bool {
	for _, h := range n.Status.RuntimeHandlers {
		if h.Name == class {
			return h.Features.UserNamespaces
		}
	}
	return false
}

type leaseObject struct {
	Meta meta `json:"metadata"`
	Spec struct {
		Holder  string `json:"holderIdentity"`
		Seconds int    `json:"leaseDurationSeconds"`
	}
}

// container returns the status of one of a pod's containers.
func (s podStatus) container(name string) containerStatus {
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		if c.Name == name {
			return c
		}
	}
	return containerStatus{}
}

// labelSelector returns labels as a label selector.
func labelSelector(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}

// query returns one parameter; nil if its value is empty.
func query(key, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{key: {value}}
}
