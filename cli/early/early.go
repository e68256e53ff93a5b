// Package early keeps the garbage collector from running while the packages of libraries make their tables: they
// come to about what a first collection waits for, and all of it is kept. It imports so little that it is initialised
// before most of them.
package early

import "runtime/debug"

// enough is the heap, in per cent of the usual first goal of 4 MiB, up to which nothing is collected.
const enough = 400

var usual = debug.SetGCPercent(enough)

// Over has garbage collected as usual, or as GOGC says.
func Over() { debug.SetGCPercent(usual) }
