// Package files reads and writes the workspace of a sandbox for the server. Programs may have left links and FIFOs
// there, and may replace files at any moment. The package also lists the changes that programs made to a directory of
// the host which the workspace shows by an overlay or a copy.
//
// A file uses those behind it in this order: copy, changes, files.
package files
