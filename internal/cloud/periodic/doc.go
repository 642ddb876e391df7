// Package periodic runs tasks of a cloud again and again while this process leads, each as a controller with a
// name: lists that are refreshed, metrics, searches for what was left behind.
//
// Not here: what the tasks do. Start reading at Add.
package periodic
