// Package ami is the table of AMI families: everything that differs between nodes of AL2023,
// Bottlerocket, Windows and the others, as one Family value for each.
//
// All other packages read the fields of a Family and never check which one it is; internal/arch checks
// that. To add a family, add an entry to the table, its name to the enum of spec.amiFamily (and to the
// alias rule, if it has an alias), and its format to internal/aws/userdata if that is a new one.
//
// Not here: lookups of images (internal/aws/discover) and the text of user data (internal/aws/userdata).
// Start reading at Of.
package ami
