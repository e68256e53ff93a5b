// Package enginetest provides real engines for tests: a dockerd and a podman service of the test's own, with images
// made from this machine's programs, without a registry.
//
// An engine is started when a test first needs it, and shared by the tests of one process. A supervisor, which is
// the test binary once more, owns it: when the tests end in any way, the supervisor removes containers, processes,
// mounts, cgroups and directories. For this, TestMain must call [Main].
package enginetest
