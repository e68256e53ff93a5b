// Package inside is PID 1 of a container: our own binary, mounted into it.
//
// It takes over in its init function when it finds that it was started as such, before the packages
// that only the command line needs are initialised. It runs the process backend inside the container, and
// lends the server that backend's sandbox over one connection (package call). When the connection ends, so does it,
// and with it the container.
package inside
