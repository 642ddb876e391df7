// Command providers is what tofu runs as its AWS and Helm providers in the tests of our Terraform module. It serves the one
// that it is named after: terraform-provider-aws or terraform-provider-helm.
//
// The first is a test double, since the real one cannot be built here: the resources and data sources that we use, with the
// names, arguments, attributes and forced replacements of version 6 of the real one, and the same calls with the AWS SDK.
// Arguments that are not in its tables are refused. Calls are not repeated while IAM settles, and a call that has begun is
// finished when the user interrupts. The second has the arguments of version 3 of the real one and runs the helm program.
//
// A resource is a table of fields and four functions on plain values: see kind.
package main
