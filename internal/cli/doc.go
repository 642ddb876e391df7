// Package cli is the command line of dovetail: one binary, one file per sub-command.
//
// Exit codes are 0 for success, 1 for a failure, 2 for a wrong call. What a command does lives in
// the package it calls; here are flags, files and messages. Start reading at Run.
package cli
