// Package driver is a cloud as the wiring sees it: one value with everything that differs between clouds.
//
// A Driver says what is known before anything is connected: names, settings, labels, kinds of node classes. Connect makes a
// Cloud of it, which is a cloud.Provider with what stands around one: gates, controllers of its own, the
// source of interruptions. OpenMarket is for programs that only want to know what could be launched. Each cloud has one
// package that makes a Driver; internal/app takes any, and internal/drivers says which.
//
// Not here: what clouds share (internal/cloud/metered, adopt, collect, interruption). Start reading at Driver.
package driver
