//go:build linux

// Package backendtest is the contract of package backends as tests, written as attacks. Each backend's own test calls
// Run; a case that opens anything is a failure.
//
// The attacking programs are in directory programs. They report each success, and the test inspects the host, too:
// canary files, processes, listeners and memory segments that it has made before. Every program that could harm a host
// without containment is bounded in itself.
package backendtest

import (
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Options describes the guarantees of the host under test.
type Options struct {
	// Profile is the Spec.Profile of all sandboxes.
	Profile string
	// Layers must be in force, and be reported so; nil means backends.ContainmentLayers. Tests about other layers are
	// skipped.
	Layers []string
	// Cgroup means that the kernel enforces limits for the tree as a whole. Without it, a watcher does, which is later and
	// coarser.
	Cgroup bool
	// Warm means that the backend keeps idle sandboxes. Programs are then announced, and must find one if their kind can;
	// their environment is compared with that of a cold start.
	Warm bool
	// Only are the groups of tests to run, by name; nil is all of them. "Smoke" is a few sandboxes that reveal a missing
	// layer, a wrong end and leftovers, for an engine whose counterpart runs all of it.
	Only []string
	// OwnDisks means that /workspace, /tmp and /dev/shm are file systems of their own, each as large as Limits.Disk. A
	// program that writes more than that to all of them together may then be ended with limit "disk", instead of getting
	// ENOSPC.
	OwnDisks bool
	// OneAddress means that 127.0.0.1 is the only address inside. glibc ignores it, and a program that asks for IPv4 alone
	// and sets AI_ADDRCONFIG finds no name.
	OneAddress bool
	// Interfaces means that a sandbox has interfaces besides the loopback's, and that it is others who keep them closed.
	Interfaces bool
	// Left lists the resources that the sandbox with this id still has on the host, in the backend's own words. It may be
	// nil. Processes, mounts, cgroups, descriptors and files in Dirs are always checked.
	Left func(t testing.TB, id string) []string
	// Dirs are directories on the host that must be the same before and after.
	Dirs []string
	// Mounted are paths that the engine mounts in each sandbox so that they may be written: Landlock keeps programs from
	// them.
	Mounted []string
	// Engine is a process of an engine that has mounts of its own; 0 if the backend's are this process's.
	Engine int
	// Known are attacks that open something here, by the beginning of their names: the README of the backend says which.
	Known []string
	// Memory means that the kernel limits the memory of the whole, though not the number of processes.
	Memory bool
	// Static means that the files that show a program its limits do not tell what is in use.
	Static bool
	// Unseen means that no files can be mounted that show a program its limits, or with MemInfo /proc/meminfo alone.
	Unseen, MemInfo bool
	// Has lists the offers of a sandbox ("python", "node", "shell", "numpy") if they differ from the host's:
	// SANDBOXMCP_TEST_REQUIRE asks for nothing else there. Nil is everything on the host.
	Has []string
}

// Run tests a backend. newBackend is called several times, and closes nothing itself.
func Run(t *testing.T, newBackend func(t testing.TB) backends.Backend, o Options) {
	if o.Layers == nil {
		o.Layers = backends.ContainmentLayers
	}
	poisonEnvironment(t)
	for _, g := range groups() {
		if o.Only != nil && !slices.Contains(o.Only, g.name) || o.Only == nil && g.name == smoke || o.Warm && !g.announces {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			b := newBackend(t)
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Errorf("close backend: %v", err)
				}
			})
			g.run(t, &bench{backend: b, newBackend: newBackend, o: o})
		})
	}
}

// group is the tests of one file.
type group struct {
	name      string
	run       func(t *testing.T, b *bench)
	announces bool // its programs are announced with Options.Warm
}

func groups() []group {
	return []group{
		{"Probe", testProbe, false},
		{"Language", testLanguage, true},
		{"Streams", testStreams, true},
		{"Terminal", testTerminal, false},
		{"Ends", testEnds, true},
		{"Contained", testContained, true},
		{"Files", testFiles, true},
		{"Mounts", testMounts, false},
		{"Changes", testChanges, false},
		{"Artifacts", testArtifacts, true},
		{"Isolation", testIsolation, true},
		{"Container", testContainer, false},
		{"Network", testNetwork, true},
		{"Kernel", testKernel, true},
		{"Limits", testLimits, true},
		{"Visible", testVisible, true},
		{"Sessions", testSessions, false},
		{"Mains", testMains, false},
		{"Gateway", testGateway, false},
		{"Programs", testPrograms, true},
		{"Ready", testReady, true},
		{"Twins", testTwins, true},
		{"Leftovers", testLeftovers, true},
		{smoke, testSmoke, false},
	}
}

// surroundings are the arguments by which programs learn what differs here.
func (b *bench) surroundings() []string {
	if b.o.Interfaces {
		return []string{"interfaces"}
	}
	return nil
}

// skipMissing skips a test, or fails it if the thing is required and should be in this sandbox.
func (b *bench) skipMissing(t testing.TB, thing, why string) {
	t.Helper()
	if b.o.Has != nil && !slices.Contains(b.o.Has, thing) {
		t.Skipf("%s: %s", thing, why)
	}
	hosttest.SkipMissing(t, thing, why)
}

func (b *bench) promises(layer string) bool { return slices.Contains(b.o.Layers, layer) }

// needLayer skips a test about a layer that this backend does not promise.
func (b *bench) needLayer(t testing.TB, name string) {
	t.Helper()
	if !b.promises(name) {
		t.Skipf("layer %s is not promised here", name)
	}
}
