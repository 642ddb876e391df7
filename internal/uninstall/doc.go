// Package uninstall cleans up before the controller is uninstalled, so that nothing is left that only a controller can end:
// an EC2NodeClass has a finalizer, and once no controller runs its CustomResourceDefinition cannot be deleted (LC-63, S-133).
//
// What users wrote is never deleted unless they request it. By default only classes that no NodeClaim uses are looked at:
// what was made for them in AWS is deleted, as when they are deleted, and their finalizer is removed. The class stays, and the
// next installation makes all of it again.
//
// The work is done under the lease of the controller, which is taken over from the leader: a controller that runs
// would put the finalizers back. Decide is the decision; enter at Run.
package uninstall
