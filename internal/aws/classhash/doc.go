// Package classhash is the hash over the static fields of an EC2NodeClass, by which nodes of a class that changed are
// found.
//
// Not here: what of a class is compared with the instance instead (internal/aws/nodeclass). Start reading at Of.
package classhash
