// Package enginetest has real engines for tests: a dockerd and a podman service of the test's own, with images that are
// made from this machine's programs, without a registry.
//
// An engine is started when a test first asks for it, and shared by the tests of one process. A supervisor, which is
// the test binary once more, holds it: when the tests end, in whatever way, the supervisor removes containers,
// processes, mounts, cgroups and directories. For it, TestMain must call [Main].
package enginetest
