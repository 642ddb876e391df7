// Package setup runs hack/setup-karpenter-iam.sh with the real AWS CLI against the emulated AWS: twice in a row, ended in
// the middle, without rights, in accounts that others prepared, with both ways to give the controller its role.
//
// There are only tests. An account is an emulator of its own. With DOVETAIL_DEEP=1 the script is ended after each single
// call that writes.
package setup
