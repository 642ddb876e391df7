// Package pages reads the pages of the documentation: their links, and their blocks of shell commands with the
// comment in front that says who runs them. Its tests hold what pages must have: links that resolve, no shell
// block that is not run, an entry for every row of the troubleshooting table, what the seeds want documented.
//
// A shell block is run by the test of sandbox/docs unless a comment on the line before it says otherwise:
//
//	<!-- needs AWS: why -->                    it is not run
//	<!-- run by: sandbox/demo TestDemo -->     another test shows it
//
// Start reading at Blocks. Not here: how commands are run, which is in sandbox/docs.
package pages
