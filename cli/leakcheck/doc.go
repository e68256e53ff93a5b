// Package leakcheck has hostile programs give away hundreds of secrets, in every encoding that people
// know by name and over every path that leads out of a sandbox, and then searches all that came out:
// results, files, the log, events, and what is left in directories. It has only tests. The search decodes;
// it knows nothing of how the vault finds secrets.
//
// What is encrypted, compressed, or mixed with something else is beyond any search: the tests know such
// encodings as exceptions, and say so when one is found after all.
package leakcheck
