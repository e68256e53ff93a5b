// Package enginecheck runs the same requests with all backends, and kills servers and engines during them. It has only
// tests, which use the parts as the command wires them.
package enginecheck
