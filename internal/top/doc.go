// Package top is the full-screen terminal view of a cluster: its nodes with what they cost, its NodePools, pending pods
// with reasons, nodes that are launched or removed, and what would be done next.
//
// A Model is changed by messages and drawn as lines of text. It reads no clock and makes no requests itself: time comes in
// as messages, and requests to an inspect.Service are commands whose responses are messages, so that a slow or failing
// response never blocks the keys. A table shows objects of one kind (table.go, columns.go); a page shows an inspect.Document
// (page.go). Every line is put together by a line (style.go), which never grows wider than the terminal.
//
// Not here: the responses (internal/inspect), and which cluster they are about (internal/cli).
//
// Start reading at Model.Update and Model.lines; Run is the program around them, Print the output without a terminal.
package top
