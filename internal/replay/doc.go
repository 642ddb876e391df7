// Package replay decides again what was decided before, with this build, and says what differs. So a new version can be
// judged before it is rolled out.
//
// A record is a snapshot (internal/snapshot) that also has what a build decided for it. Records are read one by one, from
// files of one record or of one record a line. A record that cannot be read does not stop the others.
//
// Not here: how files are found (internal/cli), and how decisions are made and compared (internal/inspect). Start reading
// at Run.
package replay
