package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// The containers of a pod, and its labels.
const (
	initContainer = "copy"
	relayName     = "relay"
	programName   = "program"

	labelRole   = "sandboxmcp.role" // "sandbox", or "server" on leases
	roleServer  = "server"
	roleSandbox = "sandbox"
	labelLease  = "sandboxmcp.lease" // name of the server's
	labelKind   = "sandboxmcp.kind"  // idle pods of one kind can take each other's place
	labelIdle   = "sandboxmcp.idle"  // "yes" on a pod that any server may claim
)

// relayUser is the user of containers in which no program runs.
const relayUser = 65532

// terminationPath is a file that every container has, whose content the kubelet would report. The usual one is in /dev,
// where programs may write; Landlock keeps them from this one.
const terminationPath = "/.sandboxmcp-end"

// longestPod is how long a pod may exist, in seconds, whatever becomes of its server.
const longestPod = 7 * 24 * 3600

// manifest returns the pod of a container. All that the API would fill in to our disadvantage is set.
func (c *cluster) manifest(of container.Container) (pod, error) {
	uid, gid, err := user(of.User)
	if err != nil {
		return pod{}, err
	}
	p := pod{APIVersion: "v1", Kind: "Pod", Meta: meta{Name: of.Name, Labels: map[string]string{labelRole: roleSandbox, labelLease: c.lease.name},
		Annotations: map[string]string{}, Owners: []owner{c.lease.owner()}}}
	if of.Idle {
		p.Meta.Labels[labelKind] = c.kind(of)
	}
	for key, value := range of.Labels {
		switch key {
		case container.LabelInstance, container.LabelState, container.LabelID:
			p.Meta.Labels[key] = value
		default: // of the operator's, which may be no labels to the API
			p.Meta.Annotations["sandboxmcp.label/"+strings.ReplaceAll(key, "/", ".")] = value
		}
	}
	p.Spec = podSpec{
		Hostname: of.Hostname, RuntimeClassName: c.config.RuntimeClass, NodeSelector: c.config.NodeSelector,
		ServiceAccount: c.config.Account, PriorityClassName: c.config.PriorityClass,
		RestartPolicy: "Never", ActiveDeadline: longestPod, GracePeriod: 1,
		DNSPolicy: "None", DNSConfig: dnsConfig{[]string{"127.0.0.1"}, []dnsOption{{"timeout", "1"}, {"attempts", "1"}}},
		SecurityContext: podSecurity{RunAsNonRoot: true, Seccomp: seccomp{"RuntimeDefault"},
			Sysctls: c.sysctls(of.Sysctls)},
		Volumes: []volume{{"home", emptyDir{SizeLimit: "512Mi"}}, {"socket", emptyDir{"Memory", "64Ki"}}, {"attach", emptyDir{"Memory", "64Ki"}}, {"empty", emptyDir{"Memory", "4Ki"}}},
	}
	if c.info.UserNS {
		p.Spec.HostUsers = new(bool)
	}
	copying := []string{container.InitPath, "copy", "/copy"}
	program := podContainer{
		Name: programName, Image: of.Image, ImagePullPolicy: c.pull(), WorkingDir: "/",
		Command: c.command(of.Args), Env: environ(of.Env), Resources: c.resources(of.Resources), Security: restricted(uid, gid),
		TerminationPath: terminationPath,
		Mounts:          []mount{{Name: "home", MountPath: container.Home, ReadOnly: true}, {Name: "socket", MountPath: path.Dir(container.SocketPath), ReadOnly: true}},
	}
	// The image does not know our user, and the kubelet would mount a hosts that may be written, and has the pod's address.
	for _, name := range slices.Sorted(maps.Keys(of.Etc)) {
		copying = append(copying, name+"="+of.Etc[name])
		program.Mounts = append(program.Mounts, mount{Name: "home", MountPath: "/etc/" + name, ReadOnly: true, SubPath: name})
	}
	p.Spec.InitContainers = []podContainer{c.helper(initContainer, copying, mount{Name: "home", MountPath: "/copy"})}
	for _, dir := range of.Masked {
		if slices.Contains(masked, dir) && c.config.RuntimeClass == "" {
			program.Mounts = append(program.Mounts, mount{Name: "empty", MountPath: dir, ReadOnly: true})
		}
	}
	tmpfs := append(slices.Clone(of.Tmpfs), container.Tmpfs{Path: "/dev/shm", Size: of.Shm})
	for i, t := range tmpfs {
		name := "tmpfs" + strconv.Itoa(i)
		p.Spec.Volumes = append(p.Spec.Volumes, volume{name, emptyDir{"Memory", strconv.FormatInt(t.Size, 10)}})
		program.Mounts = append(program.Mounts, mount{Name: name, MountPath: t.Path})
	}
	relay := c.helper(relayName, []string{container.InitPath, "relay"},
		mount{Name: "socket", MountPath: path.Dir(container.SocketPath)}, mount{Name: "attach", MountPath: "/run/sandboxmcp"})
	p.Spec.Containers = []podContainer{relay, program}
	return p, nil
}

// masked are the directories that every kernel of Linux has, and that can be covered: a volume can't be mounted where there
// is none. Other runtimes show less of the node.
var masked = []string{"/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/kernel", "/sys/module"}

// sysctls returns those that pods of the cluster may have: of low ports, which are the gateway's, and since 1.32 of TCP's
// buffers.
func (c *cluster) sysctls(of map[string]string) (all []envar) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if name == "net.ipv4.ip_unprivileged_port_start" || c.minor >= 32 && (name == "net.ipv4.tcp_rmem" || name == "net.ipv4.tcp_wmem") {
			all = append(all, envar{Name: name, Value: of[name]})
		}
	}
	return all
}

// helper returns a container of our own image.
func (c *cluster) helper(name string, command []string, mounts ...mount) podContainer {
	few := map[string]string{"cpu": "250m", "memory": "128Mi", "ephemeral-storage": "512Mi"}
	return podContainer{
		Name: name, Image: c.config.Image, ImagePullPolicy: c.pull(), Command: command, WorkingDir: "/", Mounts: mounts,
		Env:       []envar{{Name: "GOMAXPROCS", Value: "1"}},
		Resources: resources{map[string]string{"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "64Mi"}, few}, Security: restricted(relayUser, relayUser),
		TerminationPath: terminationPath,
	}
}

// restricted is the security context of all containers.
func restricted(uid, gid int) containerSecurity {
	s := containerSecurity{RunAsUser: uid, RunAsGroup: gid, ReadOnlyRoot: true}
	s.Capabilities.Drop = []string{"ALL"}
	return s
}

func (c *cluster) pull() string {
	if c.config.Never {
		return "Never"
	}
	return "IfNotPresent"
}

// command has the init use the relay, and probe the network, in place of its standard streams.
func (c *cluster) command(args []string) []string {
	args = slices.Clone(args)
	if n := len(args) - 1; n > 0 && args[n] == "-" {
		args = args[:n]
	}
	return append(append(args, "pod", c.config.Settle.String()), c.targets...)
}

// environ is the environment of PID 1. An image's variables can't be listed here, so those that Go reads are emptied.
func environ(ours []string) []envar {
	all := []envar{{Name: "SANDBOXMCP_NODE", ValueFrom: field("status.hostIP")}}
	for _, name := range []string{"GODEBUG", "GOGC", "GOMEMLIMIT", "GOTRACEBACK"} {
		all = append(all, envar{Name: name})
	}
	for _, kv := range ours {
		name, value, _ := strings.Cut(kv, "=")
		all = append(all, envar{Name: name, Value: value})
	}
	return all
}

func field(path string) *valueFrom {
	v := &valueFrom{}
	v.FieldRef.FieldPath = path
	return v
}

// resources returns requests and limits. Memory is never promised twice.
func (c *cluster) resources(r container.Resources) resources {
	memory := strconv.FormatInt(r.Memory, 10)
	limits := map[string]string{"memory": memory, "ephemeral-storage": "512Mi"}
	requests := map[string]string{"memory": memory, "ephemeral-storage": "64Mi"}
	if r.CPU > 0 {
		milli := max(1, int(r.CPU*1000))
		limits["cpu"] = fmt.Sprintf("%dm", max(10, milli))
		requests["cpu"] = fmt.Sprintf("%dm", max(1, milli/cmp.Or(c.config.Overcommit, 1)))
	}
	return resources{requests, limits}
}

// user splits "uid:gid".
func user(text string) (uid, gid int, err error) {
	if _, err = fmt.Sscanf(text, "%d:%d", &uid, &gid); err != nil {
		return 0, 0, fmt.Errorf("user %q: %w", text, err)
	}
	return uid, gid, nil
}
