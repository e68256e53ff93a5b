// Package early keeps the garbage collector from running in short commands: what the packages of libraries and a
// single run put on the heap comes to about what a first collection waits for, and most of it is kept until the end.
// It imports so little that it is initialised before most of them.
package early

import (
	"runtime"
	"runtime/debug"
)

// enough is the heap, in per cent of the usual first goal of 4 MiB, up to which nothing is collected: 32 MiB.
const enough = 800

var usual = untilFirst(debug.SetGCPercent(enough))

// untilFirst has the first collection end the exception, so that no command keeps several times what it needs.
func untilFirst(usual int) int {
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
	return usual
}

// Over has garbage collected as usual, or as GOGC says, from now on.
func Over() { debug.SetGCPercent(usual) }
