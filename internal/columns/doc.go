// Package columns lays out rows of text in aligned columns, for people who read a terminal.
//
// Not here: colours, borders, wrapping. Start reading at Text.
package columns
