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

// Containers of a pod, and its labels.
const (
	initContainer = "copy"
	relayName     = "relay"
	programName   = "program"

	labelRole   = "sandboxmcp.role" // "sandbox", or "server" on leases
	roleServer  = "server"
	roleSandbox = "sandbox"
	labelLease  = "sandboxmcp.lease" // name of the server's lease
	labelKind   = "sandboxmcp.kind"  // idle pods of one kind are interchangeable
	labelIdle   = "sandboxmcp.idle"  // "yes" on a pod that any server may claim
)

// relayUser is the user of containers that run no program.
const relayUser = 65532

// terminationPath is a file in every container whose content the kubelet reports. The default is in /dev, where
// programs may write; Landlock denies them this one.
const terminationPath = "/.sandboxmcp-end"

// longestPod is the maximum lifetime of a pod in seconds, even if its server dies.
const longestPod = 7 * 24 * 3600

// metadata returns the metadata of a container's pod.
func (c *cluster) metadata(of container.Container) meta {
	m := meta{Name: of.Name, Labels: map[string]string{labelRole: roleSandbox, labelLease: c.lease.name}, Annotations: map[string]string{},
		Owners: []owner{c.lease.owner()}}
	if of.Idle {
		m.Labels[labelKind] = c.idleKind(of)
	}
	maps.Copy(m.Labels, of.Labels)
	return m
}

// spec returns the specification of a container's pod. It sets every field whose default would weaken the sandbox.
func (c *cluster) spec(of container.Container) (object, error) {
	var uid, gid int
	if _, err := fmt.Sscanf(of.User, "%d:%d", &uid, &gid); err != nil {
		return nil, fmt.Errorf("user %q: %w", of.User, err)
	}
	volumes := []object{{"name": "home", "emptyDir": object{"sizeLimit": "512Mi"}}, memoryVolume("socket", "64Ki"),
		memoryVolume("attach", "64Ki"), memoryVolume("empty", "4Ki")}
	socket := path.Dir(container.SocketPath)
	mounts := []object{readOnlyMount("home", container.Home), readOnlyMount("socket", socket)}
	// The image has no entry for our user; and the kubelet would mount a writable hosts file that contains the
	// pod's address.
	copying := []string{"copy", "/copy"}
	for _, name := range slices.Sorted(maps.Keys(of.Etc)) {
		copying = append(copying, name+"="+of.Etc[name])
		file := readOnlyMount("home", "/etc/"+name)
		file["subPath"] = name
		mounts = append(mounts, file)
	}
	if c.config.RuntimeClass == "" { // other runtimes report a memory of the pod's own
		copying = append(copying, "meminfo="+of.MemInfo)
		file := readOnlyMount("home", "/proc/meminfo")
		file["subPath"] = "meminfo"
		mounts = append(mounts, file)
	}
	for _, dir := range of.Masked {
		if slices.Contains(masked, dir) && c.config.RuntimeClass == "" {
			mounts = append(mounts, readOnlyMount("empty", dir))
		}
	}
	for i, t := range append(slices.Clone(of.Tmpfs), container.Tmpfs{Path: "/dev/shm", Size: of.Shm}) {
		name := "tmpfs" + strconv.Itoa(i)
		volumes = append(volumes, memoryVolume(name, strconv.FormatInt(t.Size, 10)))
		mounts = append(mounts, writableMount(name, t.Path))
	}
	program := c.container(programName, of.Image, c.initCommand(of.Args), uid, gid, mounts)
	program["env"], program["resources"] = environ(of.Env), c.resources(of.Resources)
	spec := object{
		"hostname": of.Hostname, "restartPolicy": "Never", "activeDeadlineSeconds": longestPod, "terminationGracePeriodSeconds": 1,
		"automountServiceAccountToken": false, "enableServiceLinks": false, "shareProcessNamespace": false,
		"dnsPolicy": "None", "dnsConfig": object{"nameservers": []string{"127.0.0.1"}, "options": []object{nameValue("timeout", "1"),
			nameValue("attempts", "1")}},
		"securityContext": object{"runAsNonRoot": true, "seccompProfile": object{"type": "RuntimeDefault"}, "sysctls": c.sysctls(of.Sysctls)},
		"volumes":         volumes,
		"initContainers":  []object{c.helperContainer(initContainer, copying, writableMount("home", "/copy"))},
		"containers": []object{c.helperContainer(relayName, []string{"relay"}, writableMount("socket", socket),
			writableMount("attach", "/run/sandboxmcp")), program},
	}
	if c.info.UserNS {
		spec["hostUsers"] = false
	}
	if len(c.config.NodeSelector) > 0 {
		spec["nodeSelector"] = c.config.NodeSelector
	}
	for key, value := range map[string]string{"runtimeClassName": c.config.RuntimeClass, "serviceAccountName": c.config.Account,
		"priorityClassName": c.config.PriorityClass} {
		if value != "" {
			spec[key] = value
		}
	}
	return spec, nil
}

// memoryVolume returns a volume in the node's memory.
func memoryVolume(name, size string) object {
	return object{"name": name, "emptyDir": object{"medium": "Memory", "sizeLimit": size}}
}

func writableMount(volume, at string) object { return object{"name": volume, "mountPath": at} }

func readOnlyMount(volume, at string) object {
	return object{"name": volume, "mountPath": at, "readOnly": true}
}

// nameValue returns an environment variable, a sysctl, or a DNS option.
func nameValue(name, value string) object { return object{"name": name, "value": value} }

// masked are directories that every Linux kernel has, so that a volume can cover them: one can't be mounted at a
// missing path. Other runtimes show less of the node.
var masked = []string{"/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/kernel", "/sys/module"}

// sysctls returns those that the cluster permits to pods: the lowest unprivileged port, for the gateway, and since
// 1.32 TCP's buffer sizes.
func (c *cluster) sysctls(of map[string]string) (all []object) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if name == "net.ipv4.ip_unprivileged_port_start" || c.minor >= 32 && (name == "net.ipv4.tcp_rmem" || name == "net.ipv4.tcp_wmem") {
			all = append(all, nameValue(name, of[name]))
		}
	}
	return all
}

// container returns one container with the security context that all have.
func (c *cluster) container(name, image string, command []string, uid, gid int, mounts []object) object {
	pull := "IfNotPresent"
	if c.config.NeverPull {
		pull = "Never"
	}
	return object{
		"name": name, "image": image, "imagePullPolicy": pull, "command": command, "workingDir": "/", "volumeMounts": mounts,
		"terminationMessagePath": terminationPath,
		"securityContext": object{"runAsUser": uid, "runAsGroup": gid, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
			"capabilities": object{"drop": []string{"ALL"}}},
	}
}

// helperContainer returns a container with our own image.
func (c *cluster) helperContainer(name string, args []string, mounts ...object) object {
	h := c.container(name, c.config.Image, append([]string{container.InitPath}, args...), relayUser, relayUser, mounts)
	h["env"] = []object{nameValue("GOMAXPROCS", "1")}
	h["resources"] = object{"requests": object{"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "64Mi"},
		"limits": object{"cpu": "250m", "memory": "128Mi", "ephemeral-storage": "512Mi"}}
	return h
}

// initCommand returns the init's command line: the init uses the relay instead of its standard streams, and probes the
// network.
func (c *cluster) initCommand(args []string) []string {
	args = slices.Clone(args)
	if n := len(args) - 1; n > 0 && args[n] == "-" {
		args = args[:n]
	}
	return append(append(args, "pod", c.config.Settle.String()), c.targets...)
}

// environ returns the environment of PID 1. An image's variables can't be listed here, so those that Go reads are
// set to "".
func environ(ours []string) []object {
	all := []object{{"name": "SANDBOXMCP_NODE", "valueFrom": object{"fieldRef": object{"fieldPath": "status.hostIP"}}}}
	for _, kv := range append([]string{"GODEBUG=", "GOGC=", "GOMEMLIMIT=", "GOTRACEBACK="}, ours...) {
		name, value, _ := strings.Cut(kv, "=")
		all = append(all, nameValue(name, value))
	}
	return all
}

// resources returns requests and limits. Memory is never overcommitted.
func (c *cluster) resources(r container.Resources) object {
	limits := object{"memory": strconv.FormatInt(r.Memory, 10), "ephemeral-storage": "512Mi"}
	requests := object{"memory": limits["memory"], "ephemeral-storage": "64Mi"}
	if r.CPU > 0 {
		milli := max(1, int(r.CPU*1000))
		limits["cpu"] = fmt.Sprintf("%dm", max(10, milli))
		requests["cpu"] = fmt.Sprintf("%dm", max(1, milli/cmp.Or(c.config.Overcommit, 1)))
	}
	return object{"requests": requests, "limits": limits}
}
