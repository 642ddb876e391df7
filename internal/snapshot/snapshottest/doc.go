// Package snapshottest makes clusters as files for tests: NodePools, nodes and pods as a controller leaves them behind.
//
// Only tests import it. Start reading at New.
package snapshottest
