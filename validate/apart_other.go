//go:build !unix

package validate

// limitApart does nothing: here only the parent's clock and Go's stack limit bound the parser.
func limitApart() {}
