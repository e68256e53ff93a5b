// Package inside is PID 1 of a container: our own binary, mounted into it.
//
// It takes over in its init function when it was started under that name, before the packages of the command line are
// initialised. It runs the process backend inside the container, and serves that backend's sandbox to the server over
// one connection (package call). When the connection ends, it ends, and with it the container.
package inside
