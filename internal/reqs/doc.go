// Package reqs is the algebra of label requirements: intersection, overlap, compatibility, minValues.
//
// It has two levels with one meaning. Req and Set are exact and string-based: read, explain, write
// back. Table and Row are the same over a frozen universe of keys and values, as bits, so that the
// solver combines requirements without allocating. Vocabulary says which keys are well-known,
// aliases or restricted; it is data that callers pass in.
//
// Not here: validation of label syntax, reasons, what labels mean to a cloud.
// Start reading at New, Set and Compatible; for the solver at NewBuilder and Table.
package reqs
