package kubernetes

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// The parts of the API's objects that we use, as they are written in JSON.

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
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Meta       meta      `json:"metadata"`
	Spec       podSpec   `json:"spec"`
	Status     podStatus `json:"status,omitzero"`
}

type podSpec struct {
	Hostname            string            `json:"hostname"`
	HostUsers           *bool             `json:"hostUsers,omitempty"`
	RuntimeClassName    string            `json:"runtimeClassName,omitempty"`
	NodeSelector        map[string]string `json:"nodeSelector,omitempty"`
	NodeName            string            `json:"nodeName,omitempty"`
	RestartPolicy       string            `json:"restartPolicy"`
	ActiveDeadline      int64             `json:"activeDeadlineSeconds,omitempty"`
	GracePeriod         int64             `json:"terminationGracePeriodSeconds"`
	ServiceAccount      string            `json:"serviceAccountName,omitempty"`
	PriorityClassName   string            `json:"priorityClassName,omitempty"`
	AutomountToken      bool              `json:"automountServiceAccountToken"`
	EnableServiceLinks  bool              `json:"enableServiceLinks"`
	DNSPolicy           string            `json:"dnsPolicy"`
	DNSConfig           dnsConfig         `json:"dnsConfig"`
	SecurityContext     podSecurity       `json:"securityContext"`
	Volumes             []volume          `json:"volumes"`
	InitContainers      []podContainer    `json:"initContainers"`
	Containers          []podContainer    `json:"containers"`
	PreemptionPolicy    string            `json:"preemptionPolicy,omitempty"`
	ShareProcNamespaces bool              `json:"shareProcessNamespace"`
}

type dnsConfig struct {
	Nameservers []string    `json:"nameservers"`
	Options     []dnsOption `json:"options"`
}

type dnsOption struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type podSecurity struct {
	RunAsNonRoot bool    `json:"runAsNonRoot"`
	Seccomp      seccomp `json:"seccompProfile"`
	Sysctls      []envar `json:"sysctls"`
}

type seccomp struct {
	Type string `json:"type"`
}

type volume struct {
	Name     string   `json:"name"`
	EmptyDir emptyDir `json:"emptyDir"`
}

type emptyDir struct {
	Medium    string `json:"medium,omitempty"`
	SizeLimit string `json:"sizeLimit,omitempty"`
}

type podContainer struct {
	Name            string            `json:"name"`
	Image           string            `json:"image"`
	ImagePullPolicy string            `json:"imagePullPolicy"`
	Command         []string          `json:"command"`
	WorkingDir      string            `json:"workingDir"`
	Env             []envar           `json:"env,omitempty"`
	Resources       resources         `json:"resources"`
	Mounts          []mount           `json:"volumeMounts,omitempty"`
	Security        containerSecurity `json:"securityContext"`
	// TerminationPath is where the kubelet mounts a file of the node that the container may write.
	TerminationPath string `json:"terminationMessagePath"`
}

type envar struct {
	Name      string     `json:"name"`
	Value     string     `json:"value,omitempty"`
	ValueFrom *valueFrom `json:"valueFrom,omitempty"`
}

type valueFrom struct {
	FieldRef struct {
		FieldPath string `json:"fieldPath"`
	} `json:"fieldRef"`
}

type resources struct {
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

type mount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
	SubPath   string `json:"subPath,omitempty"`
}

type containerSecurity struct {
	RunAsUser       int  `json:"runAsUser"`
	RunAsGroup      int  `json:"runAsGroup"`
	ReadOnlyRoot    bool `json:"readOnlyRootFilesystem"`
	AllowEscalation bool `json:"allowPrivilegeEscalation"`
	Capabilities    struct {
		Drop []string `json:"drop"`
	} `json:"capabilities"`
}

type podStatus struct {
	Phase          string            `json:"phase,omitempty"`
	Reason         string            `json:"reason,omitempty"`
	Message        string            `json:"message,omitempty"`
	PodIP          string            `json:"podIP,omitempty"`
	Conditions     []condition       `json:"conditions,omitempty"`
	InitContainers []containerStatus `json:"initContainerStatuses,omitempty"`
	Containers     []containerStatus `json:"containerStatuses,omitempty"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type containerStatus struct {
	Name    string         `json:"name"`
	ImageID string         `json:"imageID"`
	State   containerState `json:"state"`
}

type containerState struct {
	Waiting    *stateReason `json:"waiting,omitempty"`
	Running    *struct{}    `json:"running,omitempty"`
	Terminated *stateReason `json:"terminated,omitempty"`
}

type stateReason struct {
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	ExitCode int    `json:"exitCode"`
}

type node struct {
	Status struct {
		RuntimeHandlers []struct {
			Name     string `json:"name"`
			Features struct {
				UserNamespaces bool `json:"userNamespaces"`
			} `json:"features"`
		} `json:"runtimeHandlers"`
	} `json:"status"`
}

// mapsUsers reports whether a node says that it gives pods user namespaces. A handler is called as its class, most often.
func (n node) mapsUsers(class string) bool {
	for _, h := range n.Status.RuntimeHandlers {
		if h.Name == class {
			return h.Features.UserNamespaces
		}
	}
	return false
}

type leaseObject struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Meta       meta      `json:"metadata"`
	Spec       leaseSpec `json:"spec"`
}

type leaseSpec struct {
	Holder    string `json:"holderIdentity"`
	Seconds   int    `json:"leaseDurationSeconds"`
	RenewTime string `json:"renewTime"`
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

// selector writes labels as the API takes them.
func selector(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}

// query returns one parameter; none if its value is empty.
func query(key, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{key: {value}}
}
