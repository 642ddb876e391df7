// Package convert rewrites old and sloppy manifests to strict v1: v1alpha5 Provisioner and
// AWSNodeTemplate, v1beta1, and v1 that leans on a leniency (API 11 to 13). Documents it does not
// know pass through as they are.
//
// It is pure: text in, text and findings out. Files, standard input and exit codes belong to the
// command. Start reading at Convert.
package convert
