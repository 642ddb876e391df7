// Package clients runs third-party programs against the sandbox, with the commands that
// users type: kubectl and helm, built from their modules, and the aws that is installed.
//
// There are only tests, and one world for all of them. What a command must do is a line in a table of
// steps; its key cites the rule of the specification. Commands run in bash with an empty home, so
// nothing of the user is read or written. The module in helm/ pins Helm apart from the sandbox, whose
// versions it would change. Where aws is missing, its test is skipped.
package clients
