// Package leakcheck runs hostile programs that print hundreds of secrets, in every encoding that has a common name and
// over every path that leads out of a sandbox, and then searches all output: results, files, the log, events, and
// directories. It has only tests. The search decodes; it is independent of the vault's redaction.
//
// No search finds encrypted, compressed or mixed data: the tests list such encodings as exceptions, and fail when one
// is found after all.
package leakcheck
