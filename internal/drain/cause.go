package drain

// Cause is why the termination of a node waits, as the metrics and the decision record call it.
type Cause string

// The causes.
const (
	ImpossibleBudget Cause = "impossible_pdb"
	SeveralBudgets   Cause = "several_pdbs"
	EvictionRefused  Cause = "eviction_refused"
	InstanceStays    Cause = "instance"
	SpentBudget      Cause = "pdb"
	Annotated        Cause = "do_not_disrupt"
	VolumeAttached   Cause = "volume"
	EvictionPending  Cause = "eviction_pending"
	GraceRunning     Cause = "grace_period"
)

// CauseDoc is what there is to know about a cause.
type CauseDoc struct {
	Cause   Cause
	Meaning string
	Fix     string
}

// Causes documents them, those that need help first. Waits are reported in this order.
func Causes() []CauseDoc {
	return []CauseDoc{
		{ImpossibleBudget, "A PodDisruptionBudget allows no eviction however healthy its pods are: it is written so, or it wants as many pods as there are.", "Let it allow at least one eviction, or scale its workload up."},
		{SeveralBudgets, "More than one PodDisruptionBudget selects a pod, which the eviction API refuses.", "Change the selectors so that one of them does."},
		{EvictionRefused, "The API server refuses to evict or to delete a pod, and not for a budget: an admission webhook denies it or does not respond, or the controller lacks a permission. The text has the response.", "Change what the response names. The request is repeated."},
		{InstanceStays, "The cloud does not terminate the instance, or accepted the request more than five minutes ago: a permission is missing, it cannot be reached, the zone is shifted away. The text has the response; condition `InstanceTerminating` has a reason.", "Change what the response names. The request is repeated."},
		{SpentBudget, "A PodDisruptionBudget allows no eviction now.", "Nothing has to be done if its pods become ready; otherwise find out why they do not, or let it require fewer."},
		{Annotated, "A pod carries `karpenter.sh/do-not-disrupt` or `karpenter.sh/do-not-evict`.", "Remove the annotation or delete the pod."},
		{VolumeAttached, "Volumes are still attached to the instance.", "Look at the controller of the CSI driver and at pods that still use them."},
		{EvictionPending, "A pod has been in the eviction queue for more than a minute and the API server has not responded.", "Look at the log of the controller and at the load of the API server."},
		{GraceRunning, "Pods use their grace period to terminate.", "Nothing has to be done."},
	}
}
