// Package awscli gives tests the AWS CLI that is installed, without starting it anew for each call.
//
// To start Python and to import the CLI takes half a second of a core, and a page of the documentation or a script makes
// a hundred calls. Install starts one process, forks.py, that does both once; the aws that it writes, aws.sh, has a fork
// of it make the call: the real CLI with the arguments, the folder and the AWS_ variables of the caller. Where that cannot
// be, because the CLI is no Python program whose parts can be imported, aws is started for each call.
package awscli
