// Package terraform runs our Terraform module and its examples with OpenTofu against the sandbox: init, validate, plan,
// apply, an apply that is interrupted, a second plan, destroy. The controller that the module installs runs, with the
// credentials, the queue and the roles that the module made, and launches nodes.
//
// There are only tests, and one world for all of them, where nothing of an installation is there at the beginning. Three
// modules below are apart from the sandbox, whose versions they would change: tofu pins the engine, kubectl pins a provider,
// providers pins another one and holds those that are not available as Go modules. Providers are installed from a folder, as
// with a mirror, so that nothing is fetched.
package terraform
