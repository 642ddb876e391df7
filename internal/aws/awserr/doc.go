// Package awserr says what an error of AWS means.
//
// It reads codes, HTTP status codes and texts, and returns the words of internal/cloud, or with the
// reason and the sentence that a failed launch shows on its NodeClaim. Everything is a pure function.
//
// Not here: what is done about an error. Start reading at Kind and LaunchReason.
package awserr
