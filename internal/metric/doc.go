// Package metric is every metric of the controller, by the names that Karpenter's users know
// (operations 8), with what it means. The reference page is made from it.
//
// Who measures something gets the Set and uses its field. Gauges about objects that come and go are
// Live: the owner of the objects makes their series at each scrape. Not here: what is measured, and when.
//
// Start reading at New.
package metric
