//go:build linux

// Package backendtest is the contract of package backends as tests, written as attacks. Each backend's own test
// calls Run; a successful attack is a failure.
//
// The attacking programs are in directory programs. They report each success, and the test also inspects the host:
// canary files, processes, listeners and memory segments that it has made before. Every program that could harm a
// host without containment bounds itself.
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
	// Layers must be in force, and be reported; nil means backends.ContainmentLayers. Tests of other layers are
	// skipped.
	Layers []string
	// Cgroup means that the kernel enforces limits for the whole tree. Otherwise a watcher does, later and less
	// precisely.
	Cgroup bool
	// Warm means that the backend keeps idle sandboxes. Programs are then announced, and must get an idle one if
	// their kind can have it; the environment is compared with that of a cold start.
	Warm bool
	// Only names the groups of tests to run; nil runs all. "Smoke" is a few sandboxes that reveal a missing layer,
	// a wrong end and leftovers, for an engine whose counterpart runs all groups.
	Only []string
	// OwnDisks means that /workspace, /tmp and /dev/shm are separate file systems, each as large as Limits.Disk. A
	// program that writes more than that to all of them together may then be ended with limit "disk", instead of
	// getting ENOSPC.
	OwnDisks bool
	// OneAddress means that 127.0.0.1 is the only address inside. glibc ignores it, so a program that requests only
	// IPv4 and sets AI_ADDRCONFIG finds no name.
	OneAddress bool
	// Interfaces means that a sandbox has interfaces besides loopback, which the engine or cluster closes.
	Interfaces bool
	// Left lists the resources that the sandbox with this id still has on the host, in the backend's terms. It may
	// be nil. Processes, mounts, cgroups, descriptors and files in Dirs are always checked.
	Left func(t testing.TB, id string) []string
	// Dirs are host directories that must be unchanged afterwards.
	Dirs []string
	// Mounted are writable paths that the engine mounts in each sandbox: Landlock denies programs access.
	Mounted []string
	// Engine is the PID of an engine with mounts of its own; 0 if the backend's mounts are this process's.
	Engine int
	// Known are prefixes of attacks that succeed here: the backend's README lists them.
	Known []string
	// Memory means that the kernel limits the total memory, but not the number of processes.
	Memory bool
	// Static means that the files that show limits do not show current usage.
	Static bool
	// Unseen means that no files can be mounted to show a program its limits, or with MemInfo only /proc/meminfo.
	Unseen, MemInfo bool
	// Has lists the features of a sandbox ("python", "node", "shell", "numpy") if they differ from the host's:
	// SANDBOXMCP_TEST_REQUIRE requires no others there. Nil is everything on the host.
	Has []string
}

// Run tests a backend. newBackend is called several times, and does not close the backends.
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

// group has the tests of one file.
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

// surroundings returns the arguments that describe differences of this environment to programs.
func (b *bench) surroundings() []string {
	if b.o.Interfaces {
		return []string{"interfaces"}
	}
	return nil
}

// skipMissing skips a test, or fails it if the thing is required and expected in this sandbox.
func (b *bench) skipMissing(t testing.TB, thing, why string) {
	t.Helper()
	if b.o.Has != nil && !slices.Contains(b.o.Has, thing) {
		t.Skipf("%s: %s", thing, why)
	}
	hosttest.SkipMissing(t, thing, why)
}

func (b *bench) promises(layer string) bool { return slices.Contains(b.o.Layers, layer) }

// needLayer skips a test of a layer that this backend does not promise.
func (b *bench) needLayer(t testing.TB, name string) {
	t.Helper()
	if !b.promises(name) {
		t.Skipf("layer %s is not promised here", name)
	}
}
