// Package enginecheck runs the same requests with all backends, and kills servers and engines in the
// middle of them. It has only tests, of the parts as the command wires them.
package enginecheck
