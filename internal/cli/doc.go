// Package cli is the command line of dovetail: one binary, one file per sub-command. What a command does lives in the package
// that it calls; here are flags, files and messages.
//
// Commands about a cluster find it in one of three ways: they ask the controller (source.go), read the objects of the cluster
// (source_live.go, live.go), or open a file (plan, replay). Each way gives an inspect.Service, and a response is
// one Document for all formats (document.go). Commands that need the cloud take its driver from internal/drivers.
//
// Exit codes are 0 for success, 1 for a failure, 2 for a wrong call, which is an error that is a usageError: flags,
// arguments, and files that flags name and that cannot be read or are malformed (files.go).
//
// Start reading at Run and New.
package cli
