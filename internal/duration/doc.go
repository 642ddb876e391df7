// Package duration reads the three spellings of a duration in the karpenter.sh API (section 2.1):
// groups of a number and s, m or h; the same or Never; and hours and minutes for budgets.
//
// Not here: writing durations. The user's own text is kept, so that GitOps tools see no difference.
// Start reading at Parse, ParseOrNever and ParseBudget.
package duration
