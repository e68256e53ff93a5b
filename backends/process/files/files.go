// Package files reads and writes the workspace of a sandbox for the server, in which programs may have left links,
// FIFOs and files that they replace at any moment, and lists what they changed in a directory of the host that the
// workspace shows by an overlay or a copy.
//
// A file uses those behind it in this order: copy, changes, files.
package files
