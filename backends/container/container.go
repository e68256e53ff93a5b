// Package container runs programs in containers of an engine, with our own binary as PID 1. Docker, Podman and
// Kubernetes use it.
//
// An [Engine] creates and removes containers. This package does everything else: their specification and hardening,
// the choice of image and user, idle containers, and the removal of a killed server's containers. Package call
// connects the server with PID 1, package inside is PID 1, package client is the common part of Docker and Podman,
// package image has our own images.
//
// Library: moby/profiles has the system call list from which ours is derived.
package container

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Engine creates containers. All methods may be called concurrently. An unusable engine, or a missing preparation,
// is a *backends.Refusal.
type Engine interface {
	// Name is "podman", "docker" or "kubernetes".
	Name() string

	// Info describes the engine, and connects if necessary: it must succeed before any method except Name and
	// Close.
	Info(ctx context.Context) (Info, error)

	// Image looks up an image of the engine; ErrNoImage if there is none.
	Image(ctx context.Context, reference string) (Image, error)
	// Images lists the images with a label ("key" or "key=value").
	Images(ctx context.Context, label string) ([]Image, error)
	// Pull fetches an image. progress gets lines for people, from one goroutine.
	Pull(ctx context.Context, reference string, progress func(line string)) error
	// Build makes an image from a tar archive with a Containerfile.
	Build(ctx context.Context, reference string, archive io.Reader, labels map[string]string, progress func(line string)) error

	// Create creates a container without starting it, and returns the engine's id. When the container ends, the
	// engine removes it with its anonymous volumes. After an error other than ErrFull, the container may exist:
	// Remove accepts its name.
	Create(ctx context.Context, c Container) (id string, err error)
	// Attach connects to the standard input and output of a container with Stdin before it is started; if it starts
	// by itself, Attach waits for the start. Its standard error goes to stderr. Closing the connection ends its
	// input.
	Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error)
	// Start starts a container, only once. After an error, it may be running.
	Start(ctx context.Context, id string) error
	// Update changes the limits of a running container.
	Update(ctx context.Context, id string, r Resources) error
	// Wait returns the exit of a container once it has ended, even if it was removed since. It must be called after
	// each Start.
	Wait(ctx context.Context, id string) (Exit, error)
	// Remove kills and removes a container with its anonymous volumes, and returns when it is gone. A container
	// that does not exist is not an error.
	Remove(ctx context.Context, idOrName string) error
	// List lists the containers with a label ("key" or "key=value"), including stopped ones.
	List(ctx context.Context, label string) ([]Entry, error)

	// Seed makes a named volume from a tar archive that ends with SeedEnd, unless a complete volume of that name
	// exists. It is for engines that can't mount files of this host.
	Seed(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string) error

	// Close closes connections.
	Close() error
}

// Placed is implemented by an [Engine] that learns a container's image and machine only when the container runs.
type Placed interface {
	// Place returns the image of a container with its digest, and the machine, for receipts.
	Place(id string) string
}

// Advised is implemented by an [Engine] that can check an administrator's setup.
type Advised interface {
	// MissingSetup lists missing parts of the setup, for people.
	MissingSetup(ctx context.Context) []string
}

// ErrNoImage reports that the engine does not have an image.
var ErrNoImage = errors.New("no such image")

// ErrFull reports that the engine has no room for another container until one is removed.
var ErrFull = errors.New("there is no room for another container")

// Shared is an [Engine] that offers idle containers to all its servers, each container to one of them.
type Shared interface {
	// Offer lets other servers claim an idle container of this server.
	Offer(ctx context.Context, id string) error
	// Reserve reserves an idle container of this server for itself, and adds labels. ErrTaken means that another
	// server was first: the container no longer belongs to this server, and Remove ignores it.
	Reserve(ctx context.Context, id string, labels map[string]string) error
	// LeaseIdle claims another server's idle container that matches c, for Attach, Start and Remove. It returns ""
	// if there is none.
	LeaseIdle(ctx context.Context, c Container) (id string, err error)
}

// ErrTaken reports that a container belongs to another server.
var ErrTaken = errors.New("another server has taken the container")

// Info describes an engine.
type Info struct {
	Version  string
	Address  string // for people
	Rootless bool   // runs as an ordinary user, with containers in that user's user namespace
	UserNS   bool   // containers are in a user namespace (rootless, or users are mapped)
	Users    int    // users of that namespace, including root; 0 is unknown
	Local    bool   // runs on this machine and sees our files, so that they can be mounted
	SELinux  bool   // containers may access only files with their label
	CgroupV2 bool
	Limits   bool   // memory, pids and cpu limits are enforced
	Runtime  string // the OCI runtime in use: "runc", "crun"
	Arch     string // GOARCH of the machine on which containers run
	HasInit  bool   // its containers include our binary without a volume
	Hint     string // note for people, such as that crun can't run here and runc is used
	// Remedies are this engine's remedies for layers that it can't provide.
	Remedies map[string]remedy.Text
}

// Image is an image of an engine.
type Image struct {
	ID      string   // the engine's, "sha256:..."; containers are made from it
	Names   []string // repository:tag
	Digest  string   // repository@sha256:... of the registry; "" for a local image
	Arch    string
	Env     []string
	Volumes []string // paths
	Labels  map[string]string
	Size    int64 // bytes
	Created time.Time
}

// Container specifies a container for an engine. Everything else is as closed as the engine supports: no network,
// no capabilities, no new privileges, a read-only root directory, only the usual harmless devices and GPUs, its own
// cgroup, IPC, PID and UTS namespaces, no log, no health check, no restart, no other init; and the image's user,
// entrypoint, command, volumes and working directory have no effect.
type Container struct {
	Name     string
	Image    string // the image's id
	Args     []string
	User     string // numeric "uid:gid"
	KeepID   bool   // rootless Podman: the user has the same number in the container and on the host
	Hostname string
	Env      []string // NAME=VALUE; NAME= removes a variable of the image; every variable of the image is listed
	Labels   map[string]string
	Tmpfs    []Tmpfs
	Shm      int64 // bytes of /dev/shm
	Binds    []Bind
	Volumes  []string // the image's: each is covered by an empty, read-only tmpfs, unless it Overlaps
	Covers   []string // directories in Binds to cover in the same way
	Resources
	Files   uint64            // RLIMIT_NOFILE, soft and hard
	Sysctls map[string]string // of the container's own namespaces
	Etc     map[string]string // files of /etc by name, on an engine with HasInit; others use Binds
	MemInfo string            // /proc/meminfo, likewise
	Masked  []string          // directories to show empty, in addition to those that the engine hides
	Seccomp string            // a profile in moby's format (JSON); a remote engine may ignore it
	GPUs    []string          // indices or "all"
	Stdin   bool              // Attach will be called
	Idle    bool              // offered to other servers, on a Shared engine
}

// Resources are the limits that an engine enforces.
type Resources struct {
	Memory int64 // bytes, including swap
	PIDs   int64
	CPU    float64 // cores
}

// Tmpfs is an in-memory file system.
type Tmpfs struct {
	Path string
	Size int64  // bytes
	Mode uint32 // permission bits
	Exec bool
}

// Bind mounts a path of the host, or a named volume.
type Bind struct {
	Host   string // absolute path, or a volume's name
	Inside string
	Write  bool
}

// Exit describes how a container ended.
type Exit struct {
	Code    int
	OOM     bool   // the kernel killed a process in it for lack of memory
	Removed bool   // removed before the query, by others or by the engine
	Why     string // the engine's reason, if any
}

// Entry is a container in an engine's list.
type Entry struct {
	ID     string
	Labels map[string]string
}

// Labels of containers, images and volumes that we create.
const (
	LabelInstance = "sandboxmcp.instance" // the server that created it: the name of its lock
	LabelState    = "sandboxmcp.state"    // directory of the locks: only servers that share it know which servers are alive
	LabelID       = "sandboxmcp.id"       // run or session, once known
	LabelImage    = "sandboxmcp.image"    // on images that we build: their language
	LabelSeed     = "sandboxmcp.seed"     // on volumes with our binary: the binary's hash
)

// Paths inside a container.
const (
	Home       = call.Home
	InitPath   = call.InitPath
	SocketPath = call.SocketPath
	Workspace  = backends.Workspace
)

// Config holds the operator's settings for containers of one engine.
type Config struct {
	Images   map[string]string // references by language (backends.Languages); languages without an image can't run
	Pull     string            // "missing" (default): fetch missing images; "never"
	Progress func(line string) // called during a pull; may be nil
	StateDir string            // for locks and sockets; absolute
	Ahead    int               // idle containers for each of the most recent pool keys, each for one sandbox
	Binary   string            // our own static one for Linux and the engine's architecture; "" is the running one
	Hidden   []string          // files and directories of the host to cover in every mount
	Attach   bool              // use attached streams even if a socket could be mounted
}
