// Package docs types the commands of the documentation: every shell block of README.md, of the tutorials, of the
// how-to pages and of the runbooks that no comment excepts, in the order of the page, in one shell per page and one world for all.
//
// There are only tests. Which pages, in which order, and what stands for a reader's own cluster is the table
// in pages_test.go. The real kubectl, helm and aws run; a watch or a followed log is ended after a moment.
// Output that a console block shows is compared line by line; … on the page stands for anything.
package docs
