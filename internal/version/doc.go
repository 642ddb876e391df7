// Package version says which build this is. The linker sets the values (see the Makefile); a build
// without them falls back on what the Go toolchain recorded.
//
// Start reading at String.
package version
