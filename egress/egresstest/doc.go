// Package egresstest tests the egress of sandboxes as a whole: real programs, in a network of its own with a name
// server, web sites, a database and many unreachable targets. It has only tests, which run the command as its users
// do.
package egresstest
