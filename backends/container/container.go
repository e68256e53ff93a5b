// Package container runs programs in containers of an engine, with our own binary as PID 1. Podman and Docker share it.
//
// An [Engine] makes and ends containers. Everything else is here: their specification and hardening, the choice of
// image and user, idle containers, and the removal of what a killed server left behind. Package call connects the
// server with PID 1, package inside is PID 1, package client is what Docker and Podman answer alike, package image has
// our own images.
//
// Library: moby/profiles has the list of system calls that ours is made from.
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

// Engine makes containers. All methods may be called concurrently. An engine that can't be used here, or a step that
// has to be done first, is reported as a *backends.Refusal.
type Engine interface {
	// Name is "podman" or "docker".
	Name() string

	// Info describes the engine, and connects if nothing has yet: it has to succeed before the other methods are called,
	// but for Name and Close.
	Info(ctx context.Context) (Info, error)

	// Image looks up an image of the engine; ErrNoImage if there is none.
	Image(ctx context.Context, reference string) (Image, error)
	// Images lists the images with a label ("key" or "key=value").
	Images(ctx context.Context, label string) ([]Image, error)
	// Pull fetches an image. progress gets lines for people, from one goroutine.
	Pull(ctx context.Context, reference string, progress func(line string)) error
	// Build makes an image from a tar archive with a Containerfile.
	Build(ctx context.Context, reference string, archive io.Reader, labels map[string]string, progress func(line string)) error

	// Create makes a container without starting it, and returns the engine's id. When the container ends, the engine
	// removes it with its anonymous volumes. After an error other than ErrFull, the container may have been made: Remove
	// knows its name.
	Create(ctx context.Context, c Container) (id string, err error)
	// Attach connects with the standard input and output of a container with Stdin, before it is started, unless it starts
	// by itself: then Attach waits for that. Its standard error goes to stderr. Closing ends its input.
	Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error)
	// Start starts a container, once. After an error, it may run.
	Start(ctx context.Context, id string) error
	// Update changes the limits of a running container.
	Update(ctx context.Context, id string, r Resources) error
	// Wait returns the exit of a container once it has ended, also if it was removed since. It is called
	// once the container was started, and must be called to learn how it ended.
	Wait(ctx context.Context, id string) (Exit, error)
	// Remove kills and removes a container with its anonymous volumes, and returns when it is gone. A container that
	// does not exist is no error.
	Remove(ctx context.Context, idOrName string) error
	// List lists the containers with a label ("key" or "key=value"), also those that do not run.
	List(ctx context.Context, label string) ([]Entry, error)

	// Seed makes a named volume with the content of a tar archive, which ends with SeedEnd, unless a complete volume of
	// that name exists. It is for engines that can't mount files of this host.
	Seed(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string) error

	// Close closes connections.
	Close() error
}

// Placed is implemented by an [Engine] that learns only from a running container which image it has, and where it runs.
type Placed interface {
	// Place names the image of a container with its digest, and the machine, for receipts.
	Place(id string) string
}

// Advised is implemented by an [Engine] that knows what an administrator has left out.
type Advised interface {
	// Missing names what is missing, for people.
	Missing(ctx context.Context) []string
}

// ErrNoImage reports that the engine does not have an image.
var ErrNoImage = errors.New("no such image")

// ErrFull reports that there is room for no other container until one is removed.
var ErrFull = errors.New("there is no room for another container")

// Shared is an [Engine] whose idle containers are offered to all servers that use it, each for one of them.
type Shared interface {
	// Offer lets other servers take an idle container of this server's.
	Offer(ctx context.Context, id string) error
	// Reserve makes an idle container of this server's exclusively its own, with more labels. ErrTaken says that another
	// server was first: this one has nothing to do with it any more, and Remove leaves it alone.
	Reserve(ctx context.Context, id string, labels map[string]string) error
	// Take claims an idle container as c describes it that another server has made, for Attach, Start and Remove. It
	// returns "" if there is none.
	Take(ctx context.Context, c Container) (id string, err error)
}

// ErrTaken says that a container is another server's.
var ErrTaken = errors.New("another server has taken the container")

// Info describes an engine.
type Info struct {
	Version  string
	Address  string // where it was reached, for people
	Rootless bool   // it runs as an ordinary user, and containers are in a user namespace of that user
	UserNS   bool   // containers are in a user namespace (rootless, or users are mapped)
	Users    int    // how many that namespace has, root included; 0 is unknown
	Local    bool   // it runs on this machine and sees our files: they can be mounted
	SELinux  bool   // containers may not touch files that are not labelled for them
	CgroupV2 bool
	Limits   bool   // memory, pids and cpu limits are in force
	Runtime  string // the OCI runtime that is used: "runc", "crun"
	Arch     string // GOARCH of the machine on which containers run
	HasInit  bool   // its containers have our binary already, and get it from no volume
	Hint     string // a note for people, such as that crun can't run here and runc is used
	// Remedies are those for layers that it can't give, where they differ from other engines'.
	Remedies map[string]remedy.Text
}

// Image is an image of an engine.
type Image struct {
	ID      string   // of the engine, "sha256:..."; containers are made from it
	Names   []string // repository:tag
	Digest  string   // repository@sha256:... as the registry has it, "" for one that was made here
	Arch    string
	Env     []string
	Volumes []string // paths
	Labels  map[string]string
	Size    int64 // bytes
	Created time.Time
}

// Container specifies a container for an engine. Whatever it does not name is as closed as the engine can: no network,
// no capabilities, no new privileges, a read-only root directory, no devices but the usual harmless ones and GPUs, its
// own cgroup, IPC, PID, UTS namespaces, no log, no health check, no restart, no other init, and nothing of the image's
// user, entrypoint, command, volumes and working directory.
type Container struct {
	Name     string
	Image    string // id
	Args     []string
	User     string // "uid:gid", numbers
	KeepID   bool   // rootless Podman: the user in the container is the user of the host
	Hostname string
	Env      []string // NAME=VALUE; NAME= takes a variable of the image away, of which each is here
	Labels   map[string]string
	Tmpfs    []Tmpfs
	Shm      int64 // bytes of /dev/shm
	Binds    []Bind
	Volumes  []string // of the image: each is covered by an empty, read-only tmpfs, unless it Overlaps
	Covers   []string // directories in Binds that are covered likewise
	Resources
	Files   uint64            // RLIMIT_NOFILE, soft and hard
	Sysctls map[string]string // of namespaces of its own
	Etc     map[string]string // files of /etc by name, on an engine with HasInit: others have them in Binds
	MemInfo string            // likewise, of /proc/meminfo
	Masked  []string          // directories, besides those that the engine hides, that are to be empty
	Seccomp string            // a profile as moby writes them (JSON); an engine that is not local may leave it out
	GPUs    []string          // indices, or "all"
	Stdin   bool              // it will be attached
	Idle    bool              // it will be offered, on an engine that is Shared
}

// Resources are the limits that an engine sets.
type Resources struct {
	Memory int64 // bytes, swap included
	PIDs   int64
	CPU    float64 // cores
}

// Tmpfs is a file system in memory.
type Tmpfs struct {
	Path string
	Size int64  // bytes
	Mode uint32 // permission bits
	Exec bool
}

// Bind mounts a path of the host, or a named volume.
type Bind struct {
	Host   string // absolute; or a volume's name
	Inside string
	Write  bool
}

// Exit is how a container ended.
type Exit struct {
	Code    int
	OOM     bool   // the kernel killed something in it for want of memory
	Removed bool   // it was gone before we asked: removed by others, or by the engine when it had ended
	Why     string // the engine's reason, if it gives one
}

// Entry is a container in an engine's list.
type Entry struct {
	ID     string
	Labels map[string]string
}

// Labels of containers, images and volumes that we make.
const (
	LabelInstance = "sandboxmcp.instance" // of the server that made it: the name of its lock
	LabelState    = "sandboxmcp.state"    // of the directory with the locks: a server that does not share it can't tell who is alive
	LabelID       = "sandboxmcp.id"       // of the run or session, once there is one
	LabelImage    = "sandboxmcp.image"    // on images that we build: the language
	LabelSeed     = "sandboxmcp.seed"     // on volumes with our binary: its hash
)

// Paths inside of a container.
const (
	Home       = call.Home
	InitPath   = call.InitPath
	SocketPath = call.SocketPath
	Workspace  = backends.Workspace
)

// Config holds the operator's settings for containers of one engine.
type Config struct {
	Images   map[string]string // references by language (backends.Languages); a language without one can't be run
	Pull     string            // "missing" (default): fetch images that are not there; "never"
	Progress func(line string) // of a pull; may be nil
	StateDir string            // for locks and sockets; absolute
	Ahead    int               // idle containers to keep for each of the last few pool keys, each for one sandbox
	Binary   string            // our own, static, for Linux and the engine's architecture; "" is the running one
	Hidden   []string          // files and directories of the host that no program may see, whatever is mounted: they are covered
	Attach   bool              // use attached streams also where a socket could be mounted
}
