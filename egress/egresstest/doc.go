// Package egresstest tries the way out of sandboxes as a whole: real programs, in a network of its
// own with a name server, web sites, a database and much that must never be reached. It has only
// tests, which drive the command as its users do.
package egresstest
