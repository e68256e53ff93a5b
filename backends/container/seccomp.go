package container

import _ "embed"

// profile is the list of system calls that the engine allows PID 1 and all that it starts, as moby writes such lists.
// Each program has a filter of its own besides, which PID 1 makes and which knows the machine it is on; this
// one holds PID 1, too.
//
// It is moby's list for a container without capabilities, less what package process forbids as well: a test
// makes it from moby's and says when they have parted. It is a file since a server that is not on Linux needs
// it, too.
//
//go:embed seccomp.json
var profile string
