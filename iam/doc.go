// Package iam holds the AWS policies that an installation needs, as JSON documents that the setup
// script, Terraform, the emulated AWS and the documentation share: what the controller may do (policies),
// who may use the roles (trust), who may write to the interruption queue, which events go there, and the
// managed policies of nodes.
//
// The documents have placeholders such as ${cluster_name}, in the form that Terraform's templatefile
// takes. Start reading at Controller and Fill.
package iam
