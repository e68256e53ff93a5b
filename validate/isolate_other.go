//go:build !linux && !darwin

package validate

// limitParser does nothing: on this system only the parent's timeout and Go's stack limit bound the parser.
func limitParser() {}
