// Package inside is PID 1 of a container: our own binary, mounted into the container.
//
// Its init function takes over if the binary was started under that name, before the command line's packages are
// initialised. It runs the process backend inside the container, and serves that backend's sandbox to the server
// over one connection (package call). When the connection ends, PID 1 ends, and with it the container.
package inside
